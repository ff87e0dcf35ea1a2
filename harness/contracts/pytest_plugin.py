"""Empty: an editable installation of an older version names it as a plug-in of pytest.

Without it pytest would not start there until the harness is installed again.
"""
