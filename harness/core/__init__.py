"""The nouns of the harness, its metrics, and small tools on arrays, files, locks and time.

It imports NumPy, SciPy, scikit-learn and small packages (RapidFuzz, jaxtyping, rich,
tabulate, filelock, threadpoolctl), and never torch, which takes seconds. It never reads
a data set, never loads a model and knows no method or task by name.
"""
