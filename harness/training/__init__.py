"""Loops that make a checkpoint: SimCSE and SBERT.

It imports the packages up to `encoders`; training data come from `data`. It never
scores a task of the matrix for a record, and draws only from the generators that it is
given.
"""
