"""Access control: API keys, permissions, rate limits and the log of refused calls.

keys.py          ``Keyring`` creates, revokes and checks API keys
permissions.py   the table of roles and permissions, and ``Caller``             <- START HERE
scope_limits.py  what keys that are limited to scopes may name and see
protection.py    ``RateLimiter``, and ``AccessLog`` for calls that were refused
replicas.py      rate limits that hold for all servers of a store together
"""
