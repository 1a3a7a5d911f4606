"""The HTTP API under /v1.

endpoints.py   the table: method, path, permission, request, response          <- START HERE
api.py         decoding requests, calling operations, encoding responses
open_runs.py   runs that clients hold open between requests
run_journal.py what they did, kept in the store for other replicas
openapi.py     the table as an OpenAPI document; docs_page.py for people
"""
