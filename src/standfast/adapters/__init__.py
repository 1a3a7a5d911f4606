"""Memory behind the interfaces of agent frameworks.

Each framework has one file and is an optional dependency.
"""
