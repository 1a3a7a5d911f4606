"""The web console: pages for the people who answer for a memory. Rendered here, escaped by default, no build step.

room.py         the addresses, and what every visit passes: session, form token, errors as pages      <- START HERE
entrance.py     signing in and out
sessions.py     who is signed in: a signed cookie, and a token for every form
visit.py        one visit as the pages see it, and the page that answers it
looking.py      overview, memory and search, a record's history, snapshots, differences
deciding.py     proposals that wait for a signature
auditing.py     the ledger, receipts, verifying
running.py      traces of runs, and two of them side by side
grading.py      benchmark results, prompts and their optimisation reports
tally.py        what bands hold, and how that grew
charts.py       figures as the geometry of small SVG drawings
rendering.py    the templates, and how values read in them
"""
