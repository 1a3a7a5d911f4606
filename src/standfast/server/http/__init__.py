"""The HTTP API under /v1.

endpoints.py   the table: method, path, permission, request, response          <- START HERE
api.py         decoding requests, calling operations, encoding responses
open_runs.py   runs that clients hold open between requests
openapi.py     the table as an OpenAPI document
"""
