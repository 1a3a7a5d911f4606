"""The HTTP door: one table of routes, from which the app, its access control and its description are all made.

gate.py        what every request passes: host, size, time, headers, errors as problem+json
routes.py      THE table: method, address, act, what goes in, what comes out          <- START HERE
rows/          what a row is, the call that reaches its verb, and the rows for traces, bench results and prompts
calls.py       one call: read it, let the caller in, do it in a thread, answer
runs.py        runs that are open between calls
openapi.py     the table as an OpenAPI document
problems.py    errors as answers
metrics.py     counts for Prometheus; spans.py: spans for OpenTelemetry
console/       pages for people, on the same verbs
app.py         all of it put together; server.py: served
"""
