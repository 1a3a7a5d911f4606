"""What all packages share: values and closed sets, canonical JSON, scopes and keys, requests.

It knows nothing of stores, rules or interfaces. Its modules are imported by their names.
"""
