"""What a shorter prompt must prove before it is reported.

settings.py    GateSettings: the declared level and margin, repeats, the held-out share
statistics.py  the exact test, and what it can and can't see
static.py      what can be refused without asking a model: lost placeholders, negations, numbers, code
rulings.py     from runs of baseline and candidate to a ruling, with its reason
"""
