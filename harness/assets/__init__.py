"""Every file that is ever read: what there is, where it is, how it is fetched and verified.

It imports `core`. It never parses a data set and never runs a model; only `download`
and `hub` open a connection, and only when `harness fetch` asks for it.
"""
