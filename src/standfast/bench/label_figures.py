"""How far the labels of imported episodes can be trusted, by kind, as measured on histories that no rule was
tuned on (``docs/bench-labels.md``).

Wherever scores of a kind with a low precision appear, its figure appears next to them.
"""

from typing import Final

PRECISION: Final = {"interfaces": 0.98, "changelogs": 0.75, "documentation": 0.21}
"""Of the steps that the rule calls critical, the share that a hand calls so, not knowing the rule's word."""

POOR_PRECISION: Final = 0.8

_KINDS: Final = {
    "openapi": "interfaces",
    "asyncapi": "interfaces",
    "graphql": "interfaces",
    "protobuf": "interfaces",
    "json-schema": "interfaces",
    "changelog": "changelogs",
    "docs": "documentation",
}


def kind_of_mode(mode: str) -> str:
    """Return the kind of an episode; empty if it was not imported from a history."""
    return _KINDS.get(mode, "")
