"""What the server can do, independent of the interface: HTTP, MCP and the console all call these functions.

gateway.py                 authentication, permissions, the memories of all namespaces       <- START HERE
schemas.py                 requests, responses, pages
memory_operations.py       recall, records, history, snapshots, remember, forget
governance_operations.py   proposals, retention, ledger, verification
artifact_operations.py     traces, benchmark results, prompt overrides
telemetry.py               OpenTelemetry spans
"""
