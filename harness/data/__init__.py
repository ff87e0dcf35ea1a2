"""Every file that is ever read: the catalogue, places, downloads, and the tasks and corpora.

It imports `core`. It never encodes a sentence and never computes a score; only
`download` and `hub` open a connection, and only when `harness fetch` asks for it.
"""
