"""What the server can do, independent of the interface: HTTP, MCP and the console all call these functions.

gateway.py                 authentication, permissions, the memories of all namespaces       <- START HERE
schemas.py                 requests and responses of memory, pages, JSON Schemas
store_schemas.py           the same for everything else
memory_operations.py       recall, records, history, snapshots, remember, forget, conversations
governance_operations.py   proposals, retention, ledger, verification, API keys
artifact_operations.py     traces, benchmark results, prompt overrides
event_operations.py        live events
telemetry.py               OpenTelemetry spans, metrics by namespace
"""
