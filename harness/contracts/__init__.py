"""The laws that every registered thing keeps, one's own and those that come with the harness.

`laws` has a function for each law over things of one kind, `plugins` refuses a plug-in
that breaks one, and `pytest_plugin` makes tests of them. It imports the packages up to
`evaluation`, and never names a method or a task.
"""
