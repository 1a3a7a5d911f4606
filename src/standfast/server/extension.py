"""What this package brings to the command line and the settings."""

from typing import Final

from standfast.extensions import Command, Extension

EXTENSION: Final = Extension(
    commands={
        "serve": Command(
            "Server",
            "Serve the HTTP API, the console and MCP.",
            "standfast.server.commands:serve_command",
        ),
        "mcp": Command(
            "Server",
            "Serve one MCP client, and write its settings.",
            "standfast.server.commands:mcp_command",
        ),
        "keys": Command(
            "Server",
            "Create, list and revoke API keys.",
            "standfast.server.commands:keys_command",
        ),
    },
    settings={"server": "standfast.server.settings:ServerSettings"},
)
