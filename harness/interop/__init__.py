"""Interfaces to other libraries, each imported only where it is used.

It imports the packages up to `evaluation`. It never changes what a method computes.
"""
