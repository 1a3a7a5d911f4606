"""The MCP door: the verbs of memory as tools and resources for agents, over stdio and streamable HTTP.

    tools.py       the seven tools that are Standfast's own                      <- START HERE
    familiar.py    the verbs that users of other memory servers know, mapped onto governed ones
    reception.py   who calls, and what they are told when something is refused
    server.py      all of it as a server of the official SDK; stdio, or an app for HTTP

The SDK takes most of a second to import, so that only this room imports it, and only ``standfast mcp`` and ``serve`` this room.
"""
