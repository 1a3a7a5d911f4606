"""Memory over the network: the HTTP API, the web console and the MCP server, with keys, roles and an access
log.
"""
