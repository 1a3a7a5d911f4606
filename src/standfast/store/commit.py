"""What is committed: writes, the facts that the ledger is told with them, and the receipt that answers for it."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

import msgspec

from standfast.canon import canonical_bytes, fingerprint, fingerprint_of_bytes, parse
from standfast.limits import MAX_COMMIT_FACTS, MAX_COMMIT_WRITES, MAX_KEY_CHARS
from standfast.vocabulary import ActionType, Value

ACTIONS: Final = (ActionType.WRITE, ActionType.MERGE, ActionType.EXPIRE)
# What the pipeline itself tells the ledger; a fact of another's can't pass for one of these.
COMMIT_KIND: Final = "commit"
ERASURE_KIND: Final = "erasure"


class Fact(Value, frozen=True, kw_only=True):
    """What the ledger is told beside the commit: of a judgement, an approval, a sweep. Build it with ``of``."""

    kind: str
    content: bytes
    """The canonical bytes of what is told."""

    @classmethod
    def of(cls, kind: str, body: dict[str, Any]) -> Self:
        """A fact in its canonical form."""
        return cls(kind=kind, content=canonical_bytes(body))

    def __post_init__(self) -> None:
        self._require_name("kind", self.kind)
        self._require(
            self.kind not in (COMMIT_KIND, ERASURE_KIND), f"only the store itself tells of a {self.kind}"
        )

    def read(self) -> dict[str, Any]:
        """What is told."""
        told: dict[str, Any] = parse(self.content)
        return told


class Write(Value, frozen=True, kw_only=True):
    """One change of one record. Build it with ``of``; the content is kept as the canonical bytes that are stored.

    WRITE makes a new record. MERGE puts a new version on a record, EXPIRE ends it; both fail if the record changed
    since the run's snapshot. Each may also erase what was said there before: ``erases`` is the reason, which the ledger
    is told; fingerprints stay, so that everything can still be verified. What has ended can be ended again to erase it.
    """

    namespace: str
    key: str
    action: ActionType
    content: bytes | None
    fingerprint: str | None
    erases: str | None = None

    @classmethod
    def of(
        cls,
        namespace: str,
        key: str,
        action: ActionType,
        value: object = None,
        *,
        erases: str | None = None,
    ) -> Self:
        """A change whose content is the canonical form of ``value``; EXPIRE has none."""
        content = None if action == ActionType.EXPIRE else canonical_bytes(value)
        return cls(
            namespace=namespace,
            key=key,
            action=action,
            content=content,
            fingerprint=None if content is None else fingerprint_of_bytes(content),
            erases=erases,
        )

    def __post_init__(self) -> None:
        self._require_name("namespace", self.namespace)
        self._require_name("key", self.key, MAX_KEY_CHARS)
        self._require(
            self.action in ACTIONS, f"action is {self.action!r}, but a write is one of {', '.join(ACTIONS)}"
        )
        self._require(
            (self.content is None) == (self.fingerprint is None) == (self.action == ActionType.EXPIRE),
            "EXPIRE has no content, the others have one",
        )
        if self.erases is not None:
            self._require_name("erases", self.erases)

    @property
    def place(self) -> tuple[str, str]:
        """Where it lands: namespace and key."""
        return self.namespace, self.key


ExtraWrites = Callable[[int, Sequence[str]], Sequence[Write]]
"""Told a snapshot and keys that are to be erased, it gives what else must be written with that."""


def no_extra_writes(at: int, erased: Sequence[str]) -> Sequence[Write]:  # noqa: ARG001  # The signature of ``ExtraWrites``.
    """Where nobody keeps anything beside what is erased."""
    return ()


class Commit(Value, frozen=True, kw_only=True):
    """All that a run wants to change, as one thing that happens or does not. Build it with ``of``.

    ``commit_id`` names the attempt (run, start snapshot, policy set), ``payload_fingerprint`` what it holds: the same
    pair submitted again is the same commit; the same id with another payload is refused.
    """

    run_id: str
    memory_snapshot_id: int
    policy_set_id: str
    writes: tuple[Write, ...]
    commit_id: str
    payload_fingerprint: str
    facts: tuple[Fact, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        run_id: str,
        memory_snapshot_id: int,
        policy_set_id: str,
        writes: Iterable[Write],
        facts: Iterable[Fact] = (),
    ) -> Self:
        """The commit of these writes, in any order, but none of a place twice; facts are told in the order given."""
        ordered, told = tuple(sorted(writes, key=_place)), tuple(facts)
        return cls(
            run_id=run_id,
            memory_snapshot_id=memory_snapshot_id,
            policy_set_id=policy_set_id,
            writes=ordered,
            commit_id=commit_id_of(run_id, memory_snapshot_id, policy_set_id),
            payload_fingerprint=payload_fingerprint_of(ordered, told),
            facts=told,
        )

    def __post_init__(self) -> None:
        self._require_name("run_id", self.run_id)
        self._require_name("policy_set_id", self.policy_set_id)
        self._require_whole("memory_snapshot_id", self.memory_snapshot_id, least=0)
        self._require(
            0 < len(self.writes) <= MAX_COMMIT_WRITES, f"a commit has 1 to {MAX_COMMIT_WRITES} writes"
        )
        self._require(len(set(map(_place, self.writes))) == len(self.writes), "a place is written twice")
        self._require(len(self.facts) <= MAX_COMMIT_FACTS, f"a commit tells at most {MAX_COMMIT_FACTS} facts")

    def beside(self, writes: Iterable[Write]) -> Self:
        """The same attempt with further writes: they happen with it, or not at all."""
        return type(self).of(
            run_id=self.run_id,
            memory_snapshot_id=self.memory_snapshot_id,
            policy_set_id=self.policy_set_id,
            writes=[*self.writes, *writes],
            facts=self.facts,
        )

    def as_bytes(self) -> bytes:
        """The commit as a pending buffer keeps it."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """What ``as_bytes`` gave; a commit whose ids or fingerprints do not fit its content is a ``ValueError``."""
        commit = msgspec.json.decode(stored, type=cls)
        again = cls.of(
            run_id=commit.run_id,
            memory_snapshot_id=commit.memory_snapshot_id,
            policy_set_id=commit.policy_set_id,
            writes=commit.writes,
            facts=commit.facts,
        )
        contents_fit = all(
            w.content is None or fingerprint_of_bytes(w.content) == w.fingerprint for w in commit.writes
        )
        if again != commit or not contents_fit:
            raise ValueError("the stored commit does not have its own fingerprint")
        return commit


def commit_id_of(run_id: str, memory_snapshot_id: int, policy_set_id: str) -> str:
    """The id of a commit attempt; no two different triples share one."""
    return fingerprint(["commit-id/v1", run_id, memory_snapshot_id, policy_set_id])


def payload_fingerprint_of(writes: Iterable[Write], facts: Iterable[Fact] = ()) -> str:
    """The fingerprint of a write set and its facts: one canonical line each, contents by their own fingerprints.

    Contents enter by fingerprint so that a commit can still be verified after one of them was lawfully erased.
    """
    digest = hashlib.sha256()
    for write in writes:
        line = [write.namespace, write.key, write.action.value, write.fingerprint]
        digest.update(canonical_bytes(line if write.erases is None else [*line, write.erases]) + b"\n")
    for fact in facts:
        digest.update(
            canonical_bytes({"kind": fact.kind, "told": fingerprint_of_bytes(fact.content)}) + b"\n"
        )
    return digest.hexdigest()


def _place(write: Write) -> tuple[str, str]:
    return write.namespace, write.key
