"""What vouches for a ledger: whether it is sound, has entries that nobody signed yet, or is broken.

A ledger is *broken* if something contradicts it: an entry that does not follow the one before it, a signed
checkpoint of another tree, an acknowledged entry that is missing. Entries behind the newest checkpoint are an
*unsigned tail*: a warning, which every crash leaves and the next writer ends. Otherwise it is *sound*.

The ledger names the keys that sign it, in entries of the kind ``log_key``. A checkpoint of another key is a
contradiction, and a key that follows another is told by ``verify``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from standfast.errors import BrokenChain, InvalidValue, StandfastError
from standfast.ledger.chain import Branch, Entry, walk
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.note import VerifyingKey, unverified_text
from standfast.ledger.tree import Tree
from standfast.records.vocabulary import Value

LOG_KEY_KIND: Final = "log_key"
_LOG_KEY_MARKER: Final = b'"kind":"log_key"'


class LedgerState(StrEnum):
    """What verification found."""

    SOUND = "sound"
    UNSIGNED_TAIL = "unsigned_tail"
    BROKEN = "broken"


class LogKey(Value, frozen=True, kw_only=True):
    """An entry of the ledger that names the key that signs from there on."""

    ledger_seq: int
    at: str
    key: str

    @property
    def verifying_key(self) -> VerifyingKey:
        """The public key."""
        return VerifyingKey.parse(self.key)


def log_key_in(entry: Entry) -> LogKey | None:
    """The key that an entry names; None for an entry of another kind."""
    if _LOG_KEY_MARKER not in entry.content:
        return None
    content = entry.read()
    if content["kind"] != LOG_KEY_KIND:
        return None
    return LogKey(ledger_seq=entry.seq, at=content["at"], key=content["body"]["told"]["key"])


def size_of(note: str | None) -> int:
    """The number of entries that a note is about, as its text says; 0 if it is no checkpoint."""
    with suppress(StandfastError):
        return 0 if note is None else Checkpoint.parse(unverified_text(note)).size
    return 0


@dataclass(slots=True)
class LedgerFindings:
    """What reading a whole ledger and its checkpoints found, apart from problems."""

    entries: int = 0
    """How many intact entries there are."""
    keys: list[LogKey] = field(default_factory=list)
    signed_seq: int = 0
    """The last entry that a checkpoint covers which the ledger agrees with,"""
    signed_by: str = ""
    """and the log that signed it."""

    def is_signed(self, size: int, log: str) -> None:
        """Note a checkpoint that the ledger agrees with."""
        if size > self.signed_seq:
            self.signed_seq, self.signed_by = size, log

    @property
    def key_changes(self) -> list[str]:
        """A sentence for each key that follows another one."""
        sentences, before = [], ""
        for one in self.keys:
            if before and one.key != before:
                sentences.append(
                    f"From entry {one.ledger_seq} on ({one.at}) the ledger is signed with another key,"
                    f" {_short(one.key)} instead of {_short(before)}. If nobody changed or lost the log's key"
                    " then, somebody else may sign: compare it with the public key that you kept."
                )
            before = one.key
        return sentences


def _short(key: str) -> str:
    """The name and id of a key, without the key itself."""
    return key.rpartition("+")[0]


def contradiction(
    checkpoint: Checkpoint, size: int, root: Callable[[], str], sound_size: int = 0
) -> str | None:
    """Why a tree of this size is not a later state of the checkpoint's tree, or None.

    Args:
        checkpoint: What was signed.
        size: The number of entries of the tree.
        root: Returns the root of the checkpoint's size.
        sound_size: So many entries are intact.
    """
    signed = checkpoint.size
    if signed > size:
        return (
            f"a signed checkpoint covers {signed} entries, but from {size + 1} on they are missing or broken "
            "(if you put an older copy there yourself, run: standfast restore)"
        )
    if root() != checkpoint.root_hash:
        return (
            f"a signed checkpoint of {signed} entries has another root; entries between {sound_size + 1} and"
            f" {signed} were changed"
        )
    return None


def problems_of_ledger(
    entries: Iterable[Entry],
    notes: Sequence[str] = (),
    keys: Sequence[VerifyingKey] = (),
    branches: Sequence[Branch] = (),
    findings: LedgerFindings | None = None,
    *,
    kept_elsewhere: bool = False,
) -> Iterator[str]:
    """Yield one message per problem of a ledger and its checkpoints, the first break of the chain first.

    Args:
        keys: The keys that may have signed, besides those that the ledger names.
        findings: Filled on the way.
        kept_elsewhere: Whether somebody kept notes and keys. Then the keys hold whatever the ledger says.
    """
    findings = LedgerFindings() if findings is None else findings
    hashes: list[str] = []
    try:
        for entry in walk(entries):
            hashes.append(entry.hash)
            if (event := log_key_in(entry)) is not None:
                findings.keys.append(event)
    except BrokenChain as error:
        yield str(error)
    findings.entries = len(hashes)
    if keys and not notes:
        yield (
            "the log has a key, but its checkpoints are missing; restore their file, or sign the present head"
            " to begin anew"
        )
    if notes:
        named = [] if kept_elsewhere else list(_named_keys(findings.keys))
        yield from _problems_of_checkpoints(
            Tree(hashes), notes, keys, named=named, branches=branches, findings=findings
        )


def _problems_of_checkpoints(
    tree: Tree,
    notes: Sequence[str],
    keys: Sequence[VerifyingKey],
    *,
    named: Sequence[VerifyingKey],
    branches: Sequence[Branch],
    findings: LedgerFindings,
) -> Iterator[str]:
    checkpoints: list[tuple[int, int, Checkpoint]] = []
    for number, note in enumerate(notes, 1):
        try:
            checkpoint = Checkpoint.verify(note, [*keys, *named])
            if named and checkpoint.size >= findings.keys[0].ledger_seq and not has_signed([note], *named):
                raise InvalidValue(what="its key", problem="the ledger does not name it")
        except StandfastError as error:
            yield f"checkpoint {number}: {error}"
        else:
            checkpoints.append((checkpoint.size, number, checkpoint))
    sound_size = 0
    # By size, so that the first contradiction shows between which two checkpoints the break is.
    for size, number, checkpoint in sorted(checkpoints, key=lambda one: one[:2]):
        if checkpoint.is_left(branches):
            continue
        if problem := _contradiction_with(checkpoint, tree, sound_size):
            yield f"checkpoint {number}: {problem}"
        else:
            sound_size = size
            findings.is_signed(size, checkpoint.origin)


def _named_keys(events: Iterable[LogKey]) -> Iterator[VerifyingKey]:
    for text in dict.fromkeys(one.key for one in events):
        with suppress(InvalidValue):
            yield VerifyingKey.parse(text)


def has_signed(notes: Iterable[str], *keys: VerifyingKey) -> bool:
    """Whether one of the keys has signed one of these notes."""
    for note in notes:
        with suppress(StandfastError):
            Checkpoint.verify(note, keys)
            return True
    return False


def _contradiction_with(checkpoint: Checkpoint, tree: Tree, sound_size: int = 0) -> str | None:
    return contradiction(checkpoint, len(tree), lambda: tree.root(checkpoint.size), sound_size)


def shared_and_left(
    entries: Iterable[Entry], notes: Iterable[str], keys: Sequence[VerifyingKey], branches: Sequence[Branch]
) -> tuple[int, int]:
    """How far a restored ledger agrees with the checkpoints, and how many entries these cover at most."""
    tree = Tree(entry.hash for entry in walk(entries))
    checkpoints: list[Checkpoint] = []
    for note in notes:
        with suppress(StandfastError):
            checkpoint = Checkpoint.verify(note, keys)
            if not checkpoint.is_left(branches):
                checkpoints.append(checkpoint)
    left = max((checkpoint.size for checkpoint in checkpoints), default=0)
    agreed = 0
    for checkpoint in sorted(checkpoints, key=lambda one: one.size):
        if checkpoint.size <= len(tree) and _contradiction_with(checkpoint, tree):
            return agreed, left
        agreed = min(checkpoint.size, len(tree))
    return len(tree), left


class LedgerTail(Value, frozen=True, kw_only=True):
    """How far signed checkpoints reach.

    Attributes:
        newest_seq: The number of the newest entry; 0 if the ledger is empty.
        signed_seq: The last entry that a signed checkpoint covers.
        signed_by: The log that signed it.
        cosigned_seq: The last entry that a witness has cosigned; 0 without a witness.
        cosigned_by: The witness.
        acknowledged_seq: The last entry by the head file. After a crash the ledger may be ahead of it.
        unsigned_since: When the first entry was written that no checkpoint covers; "" if there is none.
        unsigned_seconds: How long ago that is.
    """

    newest_seq: int = 0
    signed_seq: int = 0
    signed_by: str = ""
    cosigned_seq: int = 0
    cosigned_by: str = ""
    acknowledged_seq: int = 0
    unsigned_since: str = ""
    unsigned_seconds: float = 0.0

    @property
    def unsigned_entries(self) -> int:
        """How many entries no checkpoint covers."""
        return max(0, self.newest_seq - self.signed_seq)

    @property
    def summary(self) -> str:
        """What vouches for the newest entry, in a sentence or two."""
        if not self.newest_seq:
            return "The ledger is empty."
        if not self.unsigned_entries:
            newest = f"Entry {self.newest_seq}, the newest,"
            return f"{newest} is covered by a checkpoint that {self.signed_by} signed.{self._cosigned}"
        count = "1 entry is" if self.unsigned_entries == 1 else f"{self.unsigned_entries:,} entries are"
        age = (
            f" since {self.unsigned_since} ({_age(self.unsigned_seconds)} ago)" if self.unsigned_since else ""
        )
        return (
            f"Unsigned tail: {count} not covered by a signed checkpoint{age}; the newest is entry"
            f" {self.newest_seq}. The next process that writes signs them.{self._cosigned}"
        )

    @property
    def _cosigned(self) -> str:
        if not self.cosigned_by:
            return ""
        if not self.cosigned_seq:
            return f" The witness {self.cosigned_by} has cosigned nothing yet."
        return f" The witness {self.cosigned_by} has cosigned up to entry {self.cosigned_seq}."


def _age(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} seconds"


class Verification(Value, frozen=True, kw_only=True):
    """What verifying a whole store found.

    Attributes:
        state: ``sound``; ``unsigned_tail``, a warning: nothing is wrong, but the newest entries are not
            signed yet; or ``broken``: something contradicts.
        problems: What is wrong; something only if the state is ``broken``.
        notices: What is worth a look and proves nothing: a key of the log that was changed or is missing.
        tail: How far signed checkpoints reach that the ledger agrees with.
        snapshots: How many snapshots there are.
        entries: How many intact entries the ledger has.
    """

    state: LedgerState
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    tail: LedgerTail = LedgerTail()
    snapshots: int = 0
    entries: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts. True for an unsigned tail."""
        return self.state is not LedgerState.BROKEN

    @property
    def summary(self) -> str:
        """The state in words."""
        if self.state is LedgerState.BROKEN:
            count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
            return f"Broken: {count}."
        return self.tail.summary if self.state is LedgerState.UNSIGNED_TAIL else f"Sound. {self.tail.summary}"
