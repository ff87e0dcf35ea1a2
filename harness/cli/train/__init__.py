"""The commands of `harness train`: pretraining, fine-tuning, seed families, searches.

It imports the rooms up to `evaluation`. It never trains by itself: the loops are in `training`.
"""
