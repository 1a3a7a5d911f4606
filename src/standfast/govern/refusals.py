"""Refusals that are remembered: what a human rejected, and attacks in their exact bytes.

A refusal binds nobody else. Content that was refused for its form, its tags, its source or a secret is not
remembered as rejected, so that following the advice of a refusal is always accepted. What is remembered fades
after 90 days, counts within one scope, and never against a claim of a higher origin than what was refused. An
operator can lift it at once.

A row is stored under ``refused/scope//digest/day``. Its digest says what would be bound by it
(``Claim.binding_refusals``), so that a claim looks its own digests up and nothing else is read. A row depends
only on its key, so that two runs that refuse the same content write the same row.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from standfast.govern.judge.claim import Claim, refused_as_attack, refused_by_human, source_key
from standfast.govern.judge.floors import day_after
from standfast.govern.judge.judge import Judgement
from standfast.govern.judge.text_reading import TextReading
from standfast.govern.patterns import ATTACK_FLOORS, Lifting
from standfast.govern.policy import RETENTION_VOID_DAYS
from standfast.records.canon import parse, utc_text
from standfast.records.rows import RowKind
from standfast.records.scopes import ALL_SCOPES, name_in, prefix_of, refused_key, scope_in
from standfast.records.vocabulary import Receipt, Record, Value, Verdict
from standfast.store.protocol import Version
from standfast.store.store import Store

POLICY_SET_ID: Final = "refusals/v1"
_ID_CHARS: Final = 16


class Refusal(NamedTuple):
    """A refusal to remember: its digest, the day, the scope, who refused, and what of."""

    digest: str
    day: str
    scope: str
    by: str
    origin: str
    source: str

    @property
    def key(self) -> str:
        """The key of its row."""
        return refused_key(self.scope, f"{self.digest}/{self.day}")

    @property
    def row(self) -> dict[str, Any]:
        """The row under that key."""
        return {"by": self.by, "origin": self.origin, "source": self.source}


class ListedRefusal(Value, frozen=True, kw_only=True):
    """A refusal that applies now.

    Attributes:
        refusal_id: What ``lift`` takes.
        by: ``human``, or ``judge`` for an attack.
        origin: It binds claims of this origin and of lower ones.
        source: The source of an attack; empty if a human rejected it, because that binds every source.
    """

    refusal_id: str
    scope: str
    by: str
    origin: str
    source: str
    last_day: str
    fades_on: str


def refusal_of_attack(record: Record, judgement: Judgement, day: str) -> Refusal | None:
    """What is remembered of a judgement: an attack that names its source. None for every other refusal."""
    if judgement.verdict is not Verdict.VOID or not any(
        check.floor in ATTACK_FLOORS and check.hard and not check.passed for check in judgement.floor_checks
    ):
        return None
    digest = refused_as_attack(record, record.origin)
    if digest is None:
        return None
    source = source_key(record.source).replace(" ", ":", 1)
    return Refusal(digest, day, record.scope, "judge", record.origin.value, source)


def refusal_by_human(record: Record, day: str) -> Refusal:
    """What is remembered of a proposal that a human rejected."""
    digest = refused_by_human(TextReading(record.text).fingerprint, record.origin)
    return Refusal(digest, day, record.scope, "human", record.origin.value, "")


class RefusalLookup:
    """The refusals of one scope as of a snapshot."""

    def __init__(self, store: Store, namespace: str, scope: str, at: int) -> None:
        self._store = store
        self._namespace = namespace
        self._scope = scope
        self._at = at

    def binding(self, claim: Claim, today: str) -> frozenset[str]:
        """Those of the claim's ``binding_refusals`` that apply on this day (``YYYY-MM-DD``)."""
        return frozenset(digest for digest in claim.binding_refusals if self._applies(digest, today))

    def _applies(self, digest: str, today: str) -> bool:
        prefix = refused_key(self._scope, f"{digest}/")
        oldest = prefix + _oldest_day(today) if today else prefix
        rows = self._store.scan(self._namespace, prefix=prefix, at=self._at)
        return any(row.key > oldest for row in rows)


def list_refusals(
    store: Store, namespace: str, now: datetime, *, scope: str = ALL_SCOPES
) -> list[ListedRefusal]:
    """The refusals that apply now, in a scope with all below it, ordered by scope and id."""
    oldest = _oldest_day(utc_text(now)[:10])
    listed: dict[tuple[str, str], ListedRefusal] = {}
    for row in _rows(store, namespace, scope, store.head()):
        digest, _, day = name_in(row.key).partition("/")
        within, content = scope_in(row.key), parse(row.content or b"{}")
        if day > oldest:
            # Keys are ordered by day, so the newest one of a digest comes last.
            listed[within, digest] = ListedRefusal(
                refusal_id=digest[:_ID_CHARS],
                scope=within,
                by=content["by"],
                origin=content["origin"],
                source=content["source"],
                last_day=day,
                fades_on=day_after(day, RETENTION_VOID_DAYS),
            )
    return [listed[key] for key in sorted(listed)]


def lift_refusal(
    store: Store,
    namespace: str,
    refusal_id: str,
    *,
    reason: str,
    by: str,
    run_id: str,
    scope: str = ALL_SCOPES,
) -> Receipt:
    """End a refusal, in a commit of its own. The ledger records who did it and why.

    Args:
        refusal_id: The id that ``list_refusals`` gives, or a source (``KIND:ID``), for all attacks of it.
        scope: Where, with all below it.
    """
    lifting = Lifting(
        "refusal",
        {"refusal": refusal_id},
        policy_set_id=POLICY_SET_ID,
        namespace=namespace,
        reason=reason,
        by=by,
    )
    kind, colon, name = refusal_id.partition(":")
    source = source_key({"kind": kind, "id": name}).replace(" ", ":", 1) if colon else None
    head = store.head()
    keys = [
        row.key
        for row in _rows(store, namespace, scope, head)
        if (
            name_in(row.key).startswith(refusal_id)
            if source is None
            else parse(row.content or b"{}").get("source") == source
        )
    ]
    return lifting.commit(store, keys if refusal_id.strip() else [], run_id=run_id, head=head)


def _rows(store: Store, namespace: str, scope: str, at: int) -> Iterator[Version]:
    return store.scan(namespace, prefix=prefix_of(RowKind.REFUSED, scope), at=at)


def _oldest_day(today: str) -> str:
    """The day up to which everything has faded."""
    return day_after(today, -RETENTION_VOID_DAYS)
