"""The laws that every registered thing keeps, one's own and those that come with the harness.

`laws` has a function for each law over things of one kind, and `plugins` refuses a plug-in
that breaks one. It imports the packages up to `evaluation`, and never names a method or a
task.
"""
