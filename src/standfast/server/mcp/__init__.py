"""Memory as tools and resources for MCP clients, over stdio and streamable HTTP.

tools.py         authentication of tool calls, and Standfast's own tools          <- START HERE
mem0_tools.py    tools with the names, arguments and answers of mem0's server
graph_tools.py   tools with those of the reference memory server: entities, observations, relations
resources.py     records, histories, conversations and snapshots by address; prompts
server.py        the server of the official SDK: over stdio, or as routes of the HTTP server

The SDK takes most of a second to import, so only this package imports it, and only ``standfast mcp`` and
``standfast serve`` import this package.
"""
