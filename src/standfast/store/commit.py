"""Commits: the writes of a run, the facts that go into the ledger with them, and the ids and fingerprints of
both.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Final, Self, TypeAlias

import msgspec
import orjson
from msgspec.structs import force_setattr

from standfast.limits import (
    MAX_COMMIT_FACTS,
    MAX_COMMIT_WRITES,
    MAX_DEPTH_LEVELS,
    MAX_KEY_CHARS,
)
from standfast.records.canon import canonical_bytes, fingerprint, fingerprint_of_bytes, parse
from standfast.records.conversion import decoded
from standfast.records.rows import kind_of_row
from standfast.records.vocabulary import ActionType, Value

# Kinds of ledger entries that only the store itself writes; a caller's fact can't pass for one of these.
COMMIT_KIND: Final = "commit"
ERASURE_KIND: Final = "erasure"
RESTORE_KIND: Final = "restore"
# An entry of the ledger holds a fact two levels down.
_FACT_LEVELS: Final = MAX_DEPTH_LEVELS - 2
_ACTION_NAMES: Final = {action: action.value for action in ActionType}
_WRITE_ACTIONS: Final = (ActionType.WRITE, ActionType.MERGE, ActionType.EXPIRE)


class Fact(Value, frozen=True, kw_only=True):
    """An entry for the ledger: a judgement, an approval, a sweep. Build it with ``of``."""

    kind: str
    content: bytes
    """The canonical bytes of the body, which the ledger's entry takes over as they are."""

    @classmethod
    def of(cls, kind: str, body: dict[str, Any]) -> Self:
        """The fact with this body, in canonical form."""
        return cls(kind=kind, content=canonical_bytes(body, max_levels=_FACT_LEVELS))

    def __post_init__(self) -> None:
        self._require_name("kind", self.kind)
        self._require(
            self.kind not in (COMMIT_KIND, ERASURE_KIND, RESTORE_KIND),
            f"the kind {self.kind} is reserved for the store; choose another",
        )

    def read(self) -> dict[str, Any]:
        """The body."""
        body: dict[str, Any] = parse(self.content)
        return body


class Write(Value, frozen=True, kw_only=True, gc=False):
    """One change of one record. Build it with ``of``, which stores the content as canonical bytes.

    WRITE creates a record. MERGE adds a version to it and EXPIRE ends it; both are refused if the record
    changed since the run's snapshot. ``erases`` is a reason to erase the content of all earlier versions as
    well: it goes into the ledger, and fingerprints stay, so that everything can still be verified. An expired
    record can be expired again in order to erase it.

    ``until`` makes an EXPIRE an erasure by version: the versions up to that snapshot are erased, and the
    record ends unless it has a newer one, which stays. It never conflicts.

    ``again`` lets an EXPIRE end an expired record, which is shown because its first end is in quarantine.
    """

    namespace: str
    key: str
    action: ActionType
    content: bytes | None
    fingerprint: str | None
    erases: str | None = None
    until: int | None = None
    again: bool = False

    @classmethod
    def of(
        cls, namespace: str, key: str, action: ActionType, value: object = None, *, erases: str | None = None
    ) -> Self:
        """The change whose content is the canonical form of ``value``; EXPIRE has no content."""
        content = None if action == ActionType.EXPIRE else canonical_bytes(value)
        return cls.of_content(namespace, key, action, content, erases=erases)

    @classmethod
    def of_content(
        cls, namespace: str, key: str, action: ActionType, content: bytes | None, *, erases: str | None = None
    ) -> Self:
        """The change whose content is canonical already; None for EXPIRE."""
        return cls(
            namespace=namespace,
            key=key,
            action=action,
            content=content,
            fingerprint=None if content is None else fingerprint_of_bytes(content),
            erases=erases,
        )

    @classmethod
    def erasing(cls, namespace: str, key: str, *, until: int, reason: str) -> Self:
        """The erasure of a record's versions up to a snapshot. What is newer stays."""
        return cls(
            namespace=namespace,
            key=key,
            action=ActionType.EXPIRE,
            content=None,
            fingerprint=None,
            erases=reason,
            until=until,
        )

    def __post_init__(self) -> None:
        self._require_name("namespace", self.namespace)
        self._require_name("key", self.key, MAX_KEY_CHARS)
        if self.action not in _WRITE_ACTIONS:
            self._refuse(f"action is {self.action!r}; a write is one of {', '.join(_WRITE_ACTIONS)}")
        if not (self.content is None) == (self.fingerprint is None) == (self.action == ActionType.EXPIRE):
            self._refuse("EXPIRE has no content, WRITE and MERGE have one")
        if self.erases is not None:
            self._require_name("erases", self.erases)
        if self.until is not None:
            self._require_whole("until", self.until, least=0)
            self._require(
                self.action == ActionType.EXPIRE and self.erases is not None,
                "until belongs to an EXPIRE that erases",
            )

    @property
    def record_key(self) -> tuple[str, str]:
        """Namespace and key."""
        return self.namespace, self.key


class RecordVector(Value, frozen=True, kw_only=True, gc=False):
    """The vector of a record that a commit stores, by one embedder.

    ``of_snapshot`` names the version if it was written by an earlier commit; the vector is left out if that
    is no longer the newest one. Vectors are no part of a commit's fingerprint, because a model need not give
    the same numbers twice.
    """

    namespace: str
    key: str
    embedder: str
    content: bytes
    of_snapshot: int | None = None

    def __post_init__(self) -> None:
        self._require_name("namespace", self.namespace)
        self._require_name("key", self.key, MAX_KEY_CHARS)
        self._require_name("embedder", self.embedder)


ExtraWrites = Callable[[int, Sequence[str]], Sequence[Write]]
"""Called with a snapshot and the keys that a commit erases; returns further writes for the same commit."""


def no_extra_writes(snapshot: int, erased_keys: Sequence[str]) -> Sequence[Write]:  # noqa: ARG001  # An ``ExtraWrites``.
    """The ``ExtraWrites`` that adds nothing."""
    return ()


class Commit(Value, frozen=True, kw_only=True):
    """Everything that a run wants to change, applied as a whole or not at all. Build it with ``of``, once.

    ``commit_id`` identifies the attempt (run, start snapshot, policy set) and ``payload_fingerprint`` its
    content. The same pair submitted again is the same commit; the same id with another fingerprint is
    refused.
    """

    run_id: str
    memory_snapshot_id: int
    policy_set_id: str
    writes: tuple[Write, ...]
    commit_id: str
    payload_fingerprint: str
    facts: tuple[Fact, ...] = ()
    vectors: tuple[RecordVector, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        run_id: str,
        memory_snapshot_id: int,
        policy_set_id: str,
        writes: Iterable[Write],
        facts: Iterable[Fact] = (),
        vectors: Iterable[RecordVector] = (),
    ) -> Self:
        """The commit of these writes and facts.

        Args:
            run_id: The run that commits.
            memory_snapshot_id: The snapshot that the run started from.
            policy_set_id: The policies that judged the writes.
            writes: At least one, in any order; each record is written once.
            facts: Further ledger entries; they stand in the ledger in this order.
            vectors: Vectors of records that it writes, or that were written before.
        """
        writes, facts = tuple(sorted(writes, key=_record_key)), tuple(facts)
        return cls(
            run_id=run_id,
            memory_snapshot_id=memory_snapshot_id,
            policy_set_id=policy_set_id,
            writes=writes,
            commit_id=commit_id_of(run_id, memory_snapshot_id, policy_set_id),
            payload_fingerprint=payload_fingerprint_of(writes, facts),
            facts=facts,
            vectors=tuple(vectors),
        )

    def __post_init__(self) -> None:
        self._require_name("run_id", self.run_id)
        self._require_name("policy_set_id", self.policy_set_id)
        self._require_whole("memory_snapshot_id", self.memory_snapshot_id, least=0)
        if not 0 < len(self.writes) <= MAX_COMMIT_WRITES:
            self._refuse(
                f"run {self.run_id} has {len(self.writes)} writes, and a commit takes 1 to"
                f" {MAX_COMMIT_WRITES}; commit in several runs"
            )
        self._require(
            len(set(map(_record_key, self.writes))) == len(self.writes),
            "it writes one record twice; write each record once in a commit",
        )
        if len(self.facts) > MAX_COMMIT_FACTS:
            self._refuse(
                f"run {self.run_id} has {len(self.facts)} facts, and a commit takes at most"
                f" {MAX_COMMIT_FACTS}; commit in several runs"
            )

    def with_vectors(self, vectors: Iterable[RecordVector]) -> Self:
        """The same commit with these vectors, which are no part of what its fingerprints cover."""
        # A copy of what was checked before needs no second check.
        changed = copy(self)
        force_setattr(changed, "vectors", tuple(vectors))
        return changed

    def require_kinds(self) -> None:
        """Raise ``InvalidValue`` if a row is of no kind, because ``forget`` could miss it."""
        # Of a key in a scope, everything but the name decides.
        examples = {(one.namespace, *one.key.partition("//")[:2]): one for one in reversed(self.writes)}
        for write in examples.values():
            kind_of_row(write.namespace, write.key)

    def as_bytes(self) -> bytes:
        """The commit as a staged buffer stores it."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """The commit that ``as_bytes`` gave.

        A ``ValueError`` if its ids or fingerprints do not match its content.
        """
        commit = decoded(stored, cls)
        recomputed = cls.of(
            run_id=commit.run_id,
            memory_snapshot_id=commit.memory_snapshot_id,
            policy_set_id=commit.policy_set_id,
            writes=commit.writes,
            facts=commit.facts,
            vectors=commit.vectors,
        )
        contents_match = all(
            w.content is None or fingerprint_of_bytes(w.content) == w.fingerprint for w in commit.writes
        )
        facts_match = all(Fact.of(fact.kind, fact.read()) == fact for fact in commit.facts)
        if recomputed != commit or not contents_match or not facts_match:
            raise ValueError("the staged commit does not match its own fingerprint")
        return commit


WriteLine: TypeAlias = tuple[str, str, ActionType, str | None, str | None, int | None]
"""What a commit's fingerprint covers of a write: namespace, key, action, fingerprint of the content, reason
to erase, and the last snapshot that is erased.
"""

VectorMaker = Callable[[Commit], Sequence[RecordVector]]
"""Gives the vectors of the records that a commit writes.

It raises nothing: a commit is not lost because a model fails.
"""


def commit_id_of(run_id: str, memory_snapshot_id: int, policy_set_id: str) -> str:
    """The id of a commit attempt. No two different triples share one."""
    return fingerprint(["commit-id/v1", run_id, memory_snapshot_id, policy_set_id])


def payload_fingerprint_of(writes: Iterable[Write], facts: Iterable[Fact] = ()) -> str:
    """The fingerprint of writes and facts."""
    return payload_fingerprint(
        ((w.namespace, w.key, w.action, w.fingerprint, w.erases, w.until) for w in writes), facts
    )


def payload_fingerprint(writes: Iterable[WriteLine], facts: Iterable[Fact]) -> str:
    """The fingerprint of writes and facts: one canonical line each.

    A line holds the fingerprint of a content and not the content, so that a commit can still be verified
    after one of its contents was lawfully erased.
    """
    lines = []
    for namespace, key, action, content, erases, until in writes:
        line = (namespace, key, _ACTION_NAMES[action], content)
        if erases is None and key.isascii() and namespace.isascii():
            # ASCII is in NFC, so these are its canonical bytes.
            lines.append(orjson.dumps(line))
            continue
        # What is not set is left out, so that commits of earlier versions keep their fingerprints.
        erasure = () if erases is None else (erases,) if until is None else (erases, until)
        lines.append(canonical_bytes((*line, *erasure)))
    lines += [canonical_bytes({"kind": one.kind, "told": fingerprint_of_bytes(one.content)}) for one in facts]
    return fingerprint_of_bytes(b"".join([line + b"\n" for line in lines]))


def _record_key(write: Write) -> tuple[str, str]:
    return write.namespace, write.key
