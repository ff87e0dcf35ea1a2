"""Pairs with gold scores, and labelled sentences: a module a task family, readers, the corpora.

It imports `core` and `assets`; a module ends with TASKS or CORPORA, which the registry
collects. It never encodes a sentence and never computes a score.
"""
