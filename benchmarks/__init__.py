"""Speed, as ratios measured in one run: ``make bench``.

Nothing here is a test; wall time is never asserted.
"""
