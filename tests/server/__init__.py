"""Tests of the server: access control, operations, HTTP, MCP; and of the clients."""
