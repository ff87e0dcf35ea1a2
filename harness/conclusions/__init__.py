"""What numbers say together: standings, effects of choices, causes, claims, cards, contradictions.

It imports the packages up to `results`. It never runs a model, never measures, and never
renders a page.
"""
