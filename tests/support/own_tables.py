"""A published table of one's own, and the entry of its paper."""

TABLE = """
paper = "Mine (2026)"
table = "Table 1"
title = "Table 1: mine"
cite = "mine2026"
source = "my paper"
metric = "spearman"
aggregation = "all"
evidence = "code"
columns = [{ id = "mini-sts", label = "mini-STS", task = "mini-sts" }]

[[row]]
id = "averaged"
label = "Mine, averaged"
method = "mine.mean"
backbone = "mine"
fit = "none"
supervision = "none"
values = { mini-sts = "58.40" }
"""
ENTRY = "@misc{mine2026,\n  author = {Me},\n  title = {Mine},\n  year = {2026},\n}\n"
