"""What adapters erase: records by scope and name, whoever else erases them at the same time."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.records.origins import Origin
from standfast.records.vocabulary import VisibilityMode

_ERASED_AT_ONCE: Final = 500


def erase(
    memory: Memory,
    places: Sequence[tuple[str, str]],
    *,
    workflow: str,
    reason: str,
    max_origin: Origin = Origin.TRUSTED,
) -> None:
    """Erase records, in as many commits as it takes.

    Args:
        places: The scope and the name of each. One that is gone already is passed over: somebody else may be
            erasing it too.
        workflow: Who writes, for the ledger.
        reason: Why, for the ledger.
        max_origin: How far whoever asks is trusted. An untrusted one erases only what is untrusted.
    """
    for start in range(0, len(places), _ERASED_AT_ONCE):
        part = places[start : start + _ERASED_AT_ONCE]

        def attempt(part: Sequence[tuple[str, str]] = part) -> None:
            with memory.run(
                workflow=workflow, mode=VisibilityMode.BUFFERED_WRITE, max_origin=max_origin
            ) as run:
                for scope, name in part:
                    with suppress(InvalidValue):
                        run.forget(name, reason=reason, scope=scope)

        memory.retry(attempt, key=f"{part[0][0]}//{part[0][1]}")
