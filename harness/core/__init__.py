"""The nouns of the harness, its metrics, and small tools on arrays, files, locks and time.

It imports NumPy, SciPy, RapidFuzz, Matplotlib and the standard library, and no other package. It
never reads a data set, never loads a model and knows no method or task by name.
"""
