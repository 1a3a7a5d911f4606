"""What stands beside memory and belongs to no namespace: recorded runs, bench results, prompts.

shapes.py       the requests and the answers, as values
tracing.py      which runs left a trace, one of them, two of them compared
grading.py      the leaderboard of the finished grid, and a report for each policy
prompting.py    what a tag overrides, changing it in one compare-and-set, rolling back
"""
