"""Patterns of attacks: sources from which injections keep coming, recorded so that later judgements ask for
another source.

Each injection that is rejected from a named source is an incident, noted under ``mark/``. Three of one source
within 30 days are a pattern: a WITNESS record of that source and day (the document's word is scar). While it
applies, ``F3_Witness`` asks for another source. It fades 30 days after the last attack, and an operator can
lift it at once. Repetition, bad form, the agent's own word and what a trusted user says never make a pattern,
because they are not attacks by somebody who can be named. A pattern counts for claims of its own origin and
of lower ones: whoever writes under a user's name without that user's trust does not put the user on hold.

A pattern's content and evidence depend only on its source, its origin and the day, so that two runs that find
the same pattern write the same record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from standfast.errors import InvalidValue
from standfast.govern.evidence import build_evidence, content_check
from standfast.govern.judge.claim import HEARSAY_KINDS, source_key, sources_of
from standfast.govern.judge.floors import ATTACKS_OF_A_PATTERN, PATTERN_DAYS, day_after
from standfast.govern.judge.judge import Judgement
from standfast.govern.judge.secrecy import redacted_text, require_no_secret
from standfast.records.canon import fingerprint, utc_text
from standfast.records.origins import Origin
from standfast.records.rows import RowKind
from standfast.records.scopes import ALL_SCOPES, SHARED, name_in, prefix_of, scope_in, scoped_key
from standfast.records.vocabulary import ActionType, Band, FloorCheck, Receipt, Record, Value, Verdict
from standfast.store.commit import Commit, Fact, Write
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.stored_records import record_of

ATTACK_FLOORS: Final = ("F6_Injection",)
MAX_INCIDENTS_COUNTED: Final = 100
_PATTERN: Final = "scar/"
PATTERN_FLOOR: Final = "attack_pattern"
"""The check in a pattern's evidence that says how many attacks were counted."""
POLICY_SET_ID: Final = "patterns/v1"


class Incident(NamedTuple):
    """One rejected attack: its source (kind and id), the floor that found it, the day, and the scope."""

    source: str
    floor: str
    day: str
    scope: str = SHARED
    origin: Origin = Origin.UNTRUSTED

    @property
    def prefix(self) -> str:
        """The start of the keys of all incidents of this source and origin in this scope."""
        return scoped_key(RowKind.MARK, self.scope, f"{_digest(self.source)}/{self.origin}/")

    def key(self, memory_id: str) -> str:
        """The key of this incident; ``memory_id`` is that of the rejected record."""
        return f"{self.prefix}{self.day}/{memory_id}"

    @property
    def row(self) -> dict[str, str]:
        """The row under that key."""
        return {"about": self.source, "floor": self.floor, "pattern": "attack"}


class AttackPattern(Value, frozen=True, kw_only=True):
    """A pattern of attacks that applies now: source, scope, the days it was renewed on, and when it fades."""

    source: str
    scope: str
    first_day: str
    last_day: str
    fades_on: str


def incidents_of(record: Record, judgement: Judgement) -> tuple[Incident, ...]:
    """The incidents of one judgement, sorted: one for each named source of a rejected attack."""
    failed = [
        check.floor
        for check in judgement.floor_checks
        if check.hard and not check.passed and check.floor in ATTACK_FLOORS
    ]
    if judgement.verdict is not Verdict.VOID or not failed or record.evidence is None:
        return ()
    if record.origin is Origin.TRUSTED:
        return ()
    day = record.evidence.timestamp[:10]
    named = [source for source in sources_of(record) if source.partition(" ")[0] not in HEARSAY_KINDS]
    return tuple(Incident(source, failed[0], day, record.scope, record.origin) for source in sorted(named))


def earlier_counts(
    store: Store, namespace: str, at: int, incidents: Iterable[Incident]
) -> dict[Incident, int]:
    """How many incidents of each one's source still count at a snapshot, up to ``MAX_INCIDENTS_COUNTED``."""
    counts = {}
    for incident in set(incidents):
        rows = store.scan(namespace, prefix=incident.prefix, at=at)
        oldest = incident.prefix + day_after(incident.day, -PATTERN_DAYS)
        counting = islice((row for row in rows if row.key > oldest), MAX_INCIDENTS_COUNTED)
        counts[incident] = len(list(counting))
    return counts


def detect_patterns(new: Iterable[Incident], counted: Mapping[Incident, int]) -> tuple[Record, ...]:
    """The patterns that new incidents complete or renew, given how many came before, ordered by id."""
    totals = dict(counted)
    patterns = {}
    for incident in new:
        totals[incident] = totals.get(incident, 0) + 1
        if totals[incident] >= ATTACKS_OF_A_PATTERN:
            pattern = pattern_record(incident)
            patterns[pattern.memory_id] = pattern
    return tuple(patterns[name] for name in sorted(patterns))


def pattern_record(incident: Incident) -> Record:
    """The WITNESS record of a pattern, with the evidence that it rests on."""
    kind, _, name = incident.source.partition(" ")
    record = Record(
        memory_id=f"{_PATTERN}{_digest(incident.source)}/{incident.origin}/{incident.day}",
        text=(
            f"At least {ATTACKS_OF_A_PATTERN} writes from {kind}:{name} were rejected as injections in the"
            f" {PATTERN_DAYS} days up to {incident.day}."
        ),
        ts_utc=f"{incident.day}T00:00:00.000000Z",
        tags=("attack", "scar"),
        source={"kind": kind, "id": name},
        band=Band.WITNESS,
        scope=incident.scope,
        origin=incident.origin,
        verdict=Verdict.SEAL,
    )
    counted = FloorCheck(
        floor=PATTERN_FLOOR,
        score=1.0,
        passed=True,
        reason=f"at least {ATTACKS_OF_A_PATTERN} attacks in {PATTERN_DAYS} days",
    )
    day = datetime.fromisoformat(incident.day).replace(tzinfo=UTC)
    evidence = build_evidence([content_check(record), counted], Verdict.SEAL, day)
    return msgspec.structs.replace(record, evidence=evidence)


def list_patterns(store: Store, namespace: str, now: datetime) -> list[AttackPattern]:
    """The patterns that apply now, ordered by source."""
    oldest = day_after(utc_text(now)[:10], -PATTERN_DAYS)
    days: dict[tuple[str, str], list[str]] = {}
    for key, row in _pattern_rows(store, namespace, ALL_SCOPES, store.head()):
        record = record_of(row)
        day = (record.ts_utc or "")[:10]
        if day > oldest:
            days.setdefault((_shown(sources_of(record)), scope_in(key)), []).append(day)
    return [
        AttackPattern(
            source=source,
            scope=scope,
            first_day=min(listed),
            last_day=max(listed),
            fades_on=day_after(max(listed), PATTERN_DAYS),
        )
        for (source, scope), listed in sorted(days.items())
    ]


@dataclass(frozen=True, slots=True)
class Lifting:
    """The end of something that an operator lifts, in a commit of its own; the ledger keeps who and why.

    Args:
        what: What is lifted: a pattern or a refusal.
        named: What the operator names it by, as the ledger keeps it: one field and its value.
        policy_set_id: What the commit is made under.
        namespace: Where it is.
        reason: Why. Secrets in it are cut out.
        by: Who.
    """

    what: str
    named: Mapping[str, str]
    _: KW_ONLY
    policy_set_id: str
    namespace: str
    reason: str
    by: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            problem = f"say why the {self.what} is lifted; the ledger keeps it"
            raise InvalidValue(what="reason", problem=problem)
        require_no_secret(by=self.by)

    def commit(self, store: Store, keys: Sequence[str], *, run_id: str, head: int) -> Receipt:
        """Expire the rows under these keys.

        Raises:
            InvalidValue: There are none.
        """
        if not keys:
            field, value = next(iter(self.named.items()))
            listed = f"list them with: standfast {self.what}s list"
            raise InvalidValue(what=field, problem=f"there is no {self.what} of {value!r:.80}; {listed}")
        body = {
            "by": self.by,
            "namespace": self.namespace,
            "reason": redacted_text(self.reason),
            **self.named,
        }
        commit = Commit.of(
            run_id=run_id,
            memory_snapshot_id=head,
            policy_set_id=self.policy_set_id,
            writes=[Write.of(self.namespace, key, ActionType.EXPIRE) for key in keys],
            facts=[Fact.of(f"{self.what}_lifted", body)],
        )
        return store.commit(commit)


def lift_pattern(
    store: Store, namespace: str, source: str, *, reason: str, by: str, run_id: str, scope: str = ALL_SCOPES
) -> Receipt:
    """End the patterns of a source (``KIND:ID``) in a scope with all below it, in a commit of its own.

    The ledger records who did it and why.
    """
    lifting = Lifting(
        "pattern", {"source": source}, policy_set_id=POLICY_SET_ID, namespace=namespace, reason=reason, by=by
    )
    kind, _, name = source.partition(":")
    digest, head = _digest(source_key({"kind": kind, "id": name})), store.head()
    own = f"{_PATTERN}{digest}/"
    keys = [key for key, _ in _pattern_rows(store, namespace, scope, head) if name_in(key).startswith(own)]
    for within in sorted(set(map(scope_in, keys))):
        marks = store.scan(namespace, prefix=scoped_key(RowKind.MARK, within, f"{digest}/"), at=head)
        keys += [row.key for row in marks]
    return lifting.commit(store, keys, run_id=run_id, head=head)


def pattern_prefix(scope: str) -> str:
    """The start of the keys of the patterns of a scope."""
    return scoped_key(Band.WITNESS, scope, _PATTERN)


def is_pattern_key(key: str) -> bool:
    """Whether a key is that of a pattern, in any scope."""
    return key.startswith(prefix_of(Band.WITNESS)) and name_in(key).startswith(_PATTERN)


def _pattern_rows(store: Store, namespace: str, scope: str, at: int) -> Iterator[tuple[str, Version]]:
    """The patterns of a scope with all below it. WITNESS is read whole, because it holds witnesses too."""
    for row in store.scan(namespace, prefix=prefix_of(Band.WITNESS, scope), at=at):
        if is_pattern_key(row.key):
            yield row.key, row


def _digest(source: str) -> str:
    return fingerprint(["attacks/v1", source])[:32]


def _shown(sources: Iterable[str]) -> str:
    return min(sources).replace(" ", ":", 1)
