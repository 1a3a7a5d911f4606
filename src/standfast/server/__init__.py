"""Memory over the network: HTTP API, web console and MCP server, with keys, roles and an access log."""
