"""The web console: HTML pages rendered on the server, escaped by default, without a build step.

    routes.py          the table of pages, and what every request passes: session, form token, errors
                       <- START HERE
    login.py           sign-in, sign-out, signed session cookies, form tokens
    memory_pages.py    overview, activity, records and recall, snapshots, differences
    search.py          the search over everything, and the page of rejected content
    scope_pages.py     users and other scopes, their export; add, correct and forget, with a reason
    record_pages.py    a record, the timeline of its subject, and the judge's reasons
    approval_pages.py  proposals and their signatures
    audit_pages.py     the ledger, receipts, verification, API keys
    trace_pages.py     traces of runs
    glossary.py        every word of the console, explained
    rendering.py       one request as the pages see it, templates, and how texts and sizes are shown
    charts.py          the figures of the overview, and the geometry of the SVG charts

Other packages bring pages of their own; see ``standfast.extensions``.
"""
