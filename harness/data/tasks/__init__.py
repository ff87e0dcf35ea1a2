"""Pairs with gold scores, and labelled sentences: a module a task family, readers, the corpora.

A module ends with TASKS or CORPORA, which the registry collects.
"""
