"""From what a run had judged to its one commit: patterns are forged, budgets spent, and all of it sealed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from standfast.govern import stages
from standfast.govern.patterns import MAX_INCIDENTS_COUNTED, Incident
from standfast.govern.stages import Judged
from standfast.store.commit import Commit
from standfast.store.records import STREAM
from standfast.vocabulary import RunIdentity

if TYPE_CHECKING:
    from standfast.memory.memory import Memory


def sealed(
    memory: "Memory", run: RunIdentity, judged: Sequence[Judged], forgotten: Mapping[str, str]
) -> Commit | None:
    """777_FORGE, the budgets of the bands, and 999_SEAL, as of the run's snapshot."""
    store, namespace, at = memory.store, memory.namespace, run.memory_snapshot_id
    allowed = [one for one in judged if one.decision.allowed]
    patterns, incidents = stages.forge(allowed, _counted(memory, at, allowed))
    wanted = [record for one in allowed for record in one.placed]
    spent = memory.band_budgets.spend(store, namespace, at, wanted, forgotten)
    keys = {*stages.keys_written(allowed, patterns), *forgotten, *spent.gone}
    # A stream only grows: a row that is there already is another's, and must be a conflict.
    keys |= {key for key in spent.rows if not key.startswith(STREAM)} | {
        record.key for record in spent.placed
    }
    found = store.read(namespace, sorted(keys), at=at)
    return stages.seal(
        run,
        namespace,
        allowed,
        patterns=patterns,
        incidents=incidents,
        forgotten=forgotten,
        placed=spent.placed,
        notes=spent.rows,
        gone=spent.gone,
        facts=spent.facts,
        present={key: row.fingerprint for key, row in found.items()},
    )


def _counted(memory: "Memory", at: int, judged: Sequence[Judged]) -> dict[Incident, int]:
    """How often what happened in this run has happened before, up to what makes a difference."""
    counted = {}
    for incident in {incident for one in judged for incident in one.incidents}:
        rows = memory.store.scan(memory.namespace, prefix=incident.prefix, at=at)
        counted[incident] = sum(1 for _ in zip(rows, range(MAX_INCIDENTS_COUNTED), strict=False))
    return counted


def only_budgets_moved(memory: "Memory", commit: Commit | None, run: RunIdentity, head: int) -> bool:
    """Whether a commit was refused only because others spent the same budget: what the run itself changes is as it was.

    What stands in a band with a budget the policy decides anew, but for what the run forgets.
    """
    if commit is None or not memory.band_budgets.budgets or head == run.memory_snapshot_id:
        return False
    spent = tuple(
        place
        for band in memory.band_budgets.budgets
        for place in (f"{band}/", f"budget/{band}", f"{STREAM}{band}/")
    )
    keys = [write.key for write in commit.writes if write.erases or not write.key.startswith(spent)]
    before = memory.store.read(memory.namespace, keys, at=run.memory_snapshot_id)
    after = memory.store.read(memory.namespace, keys, at=head)
    return {key: row.fingerprint for key, row in before.items()} == {
        key: row.fingerprint for key, row in after.items()
    }
