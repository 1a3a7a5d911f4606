"""The web console: HTML pages rendered on the server, escaped by default, without a build step.

routes.py          the table of pages, and what every request passes: session, form token, errors   <- START HERE
page_request.py    one request as the pages see it, and the page that answers it
login.py           sign-in, sign-out, signed session cookies, form tokens
band_stats.py      records and bytes of each band, and their growth, for the overview
search.py          what matches the words and filters of a search; search_pages.py shows it
scope_pages.py     users and other scopes, and their export
change_pages.py    add, correct and forget, with a reason
activity_pages.py  what happened last; console.js adds what happens later
refused_pages.py   rejected content, for people
memory_pages.py    overview, records and recall, snapshots, differences
record_pages.py    a record, and the timeline of its subject
commit_notes.py    what the ledger says about a commit: its run, the reasons of the judge
approval_pages.py  proposals and their signatures
key_pages.py       API keys: create, list, revoke
audit_pages.py     the ledger, receipts, verification
trace_pages.py     traces of runs, and the comparison of two
bench_pages.py     benchmark results, prompt overrides and optimisation reports
glossary.py        every word of the console, explained
rendering.py       templates, filters, and how texts and sizes are shown
charts.py          geometry of the SVG charts
"""
