"""What every HTTP-facing part of the server shares: the API, the MCP endpoint and the console.

context.py        ``ApiContext``: authentication of requests, worker threads, refusals
event_streams.py  live events as server-sent events
middleware.py     ``EdgeMiddleware``: hosts, sizes, deadlines, security headers; ``ServerMetrics``
problems.py       errors as problem+json
"""
