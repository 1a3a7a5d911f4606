"""Access control: API keys, permissions, rate limits and the log of refused calls.

keys.py          ``Keyring`` creates, revokes and checks API keys
permissions.py   the table of roles and permissions, and ``Caller``             <- START HERE
protection.py    ``RateLimiter``, and ``AccessLog`` for calls that were refused
"""

from standfast.server.access.keys import ApiKey, Keyring
from standfast.server.access.permissions import ALL_NAMESPACES, Caller, KeyRole, KeyScope, Permission
from standfast.server.access.protection import AccessLog, RateLimiter, RefusedCall

__all__ = [
    "ALL_NAMESPACES",
    "AccessLog",
    "ApiKey",
    "Caller",
    "KeyRole",
    "KeyScope",
    "Keyring",
    "Permission",
    "RateLimiter",
    "RefusedCall",
]
