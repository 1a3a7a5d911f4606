"""Tests of the doors: access, HTTP, MCP, the client."""
