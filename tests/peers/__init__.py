"""Other projects' own tests, run against the adapters: ``make peers SUITES=FOLDER``.

Nothing of them is kept here.
"""
