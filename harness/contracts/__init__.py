"""The contracts that every plug-in keeps, and everything that comes with the harness.

A contract is a function `check_...` over one registered thing; `cases` pairs it with
every thing of its kind, and `plugins` refuses a plug-in that breaks one. It imports the
packages up to `evaluation`. It never names a method or a task.
"""
