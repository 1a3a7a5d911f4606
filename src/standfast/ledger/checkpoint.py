"""Checkpoints: a tree's size and root as a signed note (c2sp.org/tlog-checkpoint), and the file that mirrors them.

    example.com/behind-the-sofa
    20852163
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

A checkpoint is what an outsider keeps of a ledger: whoever changes, cuts or rolls back the ledger after it can't fit
the two together again.
"""

import base64
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from standfast.canon import canonical_bytes, normal_string, parse
from standfast.durable import sync_folder
from standfast.errors import (
    CheckpointFileFailed,
    ForeignLog,
    InvalidValue,
    MalformedCheckpoint,
    MalformedEntry,
    MisplacedEntry,
    NotCanonical,
    SizeMismatch,
)
from standfast.ledger.chain import Entry, leaf_hash
from standfast.ledger.note import SigningKey, VerifyingKey, decoded_base64, open_note, unverified_text
from standfast.ledger.note import sign as sign_note
from standfast.ledger.tree import EMPTY_ROOT, Tree, verify_consistency, verify_inclusion
from standfast.limits import MAX_NOTE_BYTES, MAX_PROOF_HASHES, MAX_TREE_SIZE, MAX_VALUE_BYTES
from standfast.vocabulary import Value

_SIZE: Final = re.compile("0|[1-9][0-9]{0,15}")
_HASH_BYTES: Final = 32
# A line as a crash leaves it: a JSON string that does not end, nor go on behind a whole signature.
_CUT_SHORT: Final = re.compile(rb'"(?!.*u2014 [^ ]+ [A-Za-z0-9+/=]+\\n.)(?:[^"\\\x00-\x1f\x7f-\xff]|\\.)*\\?')


class Checkpoint(Value, frozen=True, kw_only=True):
    """The size and root of the tree of the log ``origin``. ``text`` is what is signed."""

    origin: str
    size: int
    root_hash: str
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._require_name("origin", self.origin)
        self._require(
            type(self.size) is int and 0 <= self.size <= MAX_TREE_SIZE,
            f"size must be a whole number from 0 to {MAX_TREE_SIZE}",
        )
        self._require_digest("root_hash", self.root_hash)
        self._require(self.size > 0 or self.root_hash == EMPTY_ROOT, "the empty tree has another root_hash")
        for line in self.extensions:
            self._require_name("a line of extensions", line)

    @property
    def text(self) -> str:
        """The checkpoint as lines of text, each ended by a newline."""
        root = base64.b64encode(bytes.fromhex(self.root_hash)).decode()
        return "".join(f"{line}\n" for line in (self.origin, self.size, root, *self.extensions))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The checkpoint that ``text`` gave; anything else is a ``MalformedCheckpoint``."""
        if not isinstance(text, str) or not text.endswith("\n"):
            raise MalformedCheckpoint(problem="it does not end in a newline")
        # Not splitlines: Unicode knows more line ends than a note does.
        lines = text[:-1].split("\n")
        if len(lines) < 3:
            raise MalformedCheckpoint(problem="it has fewer than three lines")
        origin, size, root, *extensions = lines
        if not _SIZE.fullmatch(size):
            raise MalformedCheckpoint(problem="its second line is no size in decimal digits")
        root_hash = decoded_base64(root)
        if root_hash is None or len(root_hash) != _HASH_BYTES:
            raise MalformedCheckpoint(problem="its third line is no SHA-256 in base64")
        try:
            return cls(origin=origin, size=int(size), root_hash=root_hash.hex(), extensions=tuple(extensions))
        except InvalidValue as error:
            raise MalformedCheckpoint(problem=error.facts["problem"]) from None

    def sign(self, keys: Iterable[SigningKey]) -> str:
        """The checkpoint as a note signed by each key. One of them must be the log's own, named as its origin."""
        keys = tuple(keys)
        _require_own(self, (key.name for key in keys))
        return sign_note(self.text, keys)

    @classmethod
    def verify(cls, note: str, keys: Iterable[VerifyingKey]) -> Self:
        """The checkpoint in a note that the log has signed with one of these keys.

        Raises what ``open_note`` does, ``MalformedCheckpoint`` for a note about something else, and ``ForeignLog`` if
        no signer is named as the origin: a key vouches for its own log only.
        """
        text, signers = open_note(note, keys)
        checkpoint = cls.parse(text)
        _require_own(checkpoint, (signer.name for signer in signers))
        return checkpoint

    def verify_extends(self, older: "Checkpoint", proof: Sequence[str]) -> None:
        """Return if the proof shows that this tree extends the older checkpoint's; both must be verified already."""
        if older.origin != self.origin:
            raise ForeignLog(origin=older.origin, expected=self.origin)
        verify_consistency(
            old_size=older.size,
            old_root=older.root_hash,
            new_size=self.size,
            new_root=self.root_hash,
            proof=proof,
        )


def _require_own(checkpoint: Checkpoint, names: Iterable[str]) -> None:
    names = sorted(set(names))
    if checkpoint.origin not in names:
        raise ForeignLog(origin=checkpoint.origin, expected=", ".join(names))


class CheckpointFileContent(Value, frozen=True, kw_only=True):
    """What a mirror holds: its notes in the order of appending, and where it holds something else.

    ``torn_lines`` are the numbers, from 1 on, of the lines that hold no whole note: what a crash in the middle of an
    append leaves, or a hand. ``healed_lines`` are those of them that were only cut short and that a whole note follows:
    the crash is over. The notes are as they were found; verify them.
    """

    notes: tuple[str, ...]
    torn_lines: tuple[int, ...] = ()
    healed_lines: tuple[int, ...] = ()


class CheckpointFile:
    """An append-only file of signed checkpoints, kept away from the database that they vouch for.

    Each line is one note as a JSON string, so that a torn line never runs into the next. Nothing is ever rewritten
    or cut; a file system's append-only flag suits it. Processes may share the file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, note: str) -> None:
        """Add one signed checkpoint. On return it is on the disk; after a ``CheckpointFileFailed`` it may be, or in part."""
        Checkpoint.parse(unverified_text(note))
        with self._locked() as descriptor:
            _append_line(descriptor, note)
            sync_folder(self.path.parent)

    def extend(self, following: Callable[[CheckpointFileContent], str | None]) -> None:
        """Add the note that ``following`` makes of what is kept, if it makes one, while nobody else can add any."""
        with self._locked() as descriptor:
            kept = _reading(_whole(descriptor))
            if not kept.notes:
                # That there is a file must be as durable as what is made because of it.
                sync_folder(self.path.parent)
            if (note := following(kept)) is not None:
                _append_line(descriptor, note)

    def read(self) -> CheckpointFileContent:
        """All that the file holds; nothing, if there is no file yet."""
        try:
            return _reading(self.path.read_bytes())
        except FileNotFoundError:
            return CheckpointFileContent(notes=())
        except OSError as error:
            raise self._failed(error) from error

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The open file, made if there is none, which nobody else adds to meanwhile."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> CheckpointFileFailed:
        return CheckpointFileFailed(file=str(self.path), problem=error.strerror or str(error))


def _append_line(descriptor: int, note: str) -> None:
    line = json.dumps(note).encode() + b"\n"
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        # An earlier append was torn. Its rest stays as a line of its own.
        line = b"\n" + line
    if os.write(descriptor, line) != len(line):
        raise OSError("the line was written in part only; the disk may be full")
    os.fsync(descriptor)


def _whole(descriptor: int) -> bytes:
    size, found = os.fstat(descriptor).st_size, b""
    while len(found) < size and (piece := os.pread(descriptor, size - len(found), len(found))):
        found += piece
    return found


def _reading(content: bytes) -> CheckpointFileContent:
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    found = [_note_in(line) for line in lines]
    last_whole = max((number for number, note in enumerate(found, 1) if note is not None), default=0)
    torn = [number for number, note in enumerate(found, 1) if note is None]
    return CheckpointFileContent(
        notes=tuple(note for note in found if note is not None),
        torn_lines=tuple(torn),
        healed_lines=tuple(n for n in torn if n < last_whole and _CUT_SHORT.fullmatch(lines[n - 1])),
    )


def _note_in(line: bytes) -> str | None:
    try:
        note = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, str) else None


class InclusionReceipt(Value, frozen=True, kw_only=True):
    """An entry's text, its place in a tree, the proof that it stands there, and a signed checkpoint of that tree.

    Being built proves nothing; ``verify_receipt`` does.
    """

    entry: str
    leaf_index: int
    tree_size: int
    inclusion_proof: tuple[str, ...]
    checkpoint: str

    def __post_init__(self) -> None:
        self._require_text("entry", self.entry, most_bytes=MAX_VALUE_BYTES)
        self._require(
            type(self.leaf_index) is type(self.tree_size) is int
            and 0 <= self.leaf_index < self.tree_size <= MAX_TREE_SIZE,
            f"leaf_index and tree_size must be whole numbers, 0 <= leaf_index < tree_size <= {MAX_TREE_SIZE}",
        )
        self._require(
            isinstance(self.inclusion_proof, tuple) and len(self.inclusion_proof) <= MAX_PROOF_HASHES,
            f"inclusion_proof must be a tuple of at most {MAX_PROOF_HASHES} hashes",
        )
        for digest in self.inclusion_proof:
            self._require_digest("each hash of inclusion_proof", digest)
        self._require_text("checkpoint", self.checkpoint, most_bytes=MAX_NOTE_BYTES)

    def _require_text(self, field: str, text: str, *, most_bytes: int) -> None:
        """A receipt travels as JSON, whose strings are in NFC; any other text would come back changed."""
        try:
            fits = (
                len(text) <= most_bytes and normal_string(text) == text and len(text.encode()) <= most_bytes
            )
        except (AttributeError, TypeError, NotCanonical):
            fits = False
        self._require(fits, f"{field} must be text in NFC of at most {most_bytes} bytes")

    @classmethod
    def of(cls, entry: Entry, tree: Tree, checkpoint_note: str) -> Self:
        """The receipt of an entry that is a leaf of ``tree``, for the size that the signed checkpoint names."""
        size = Checkpoint.parse(unverified_text(checkpoint_note)).size
        return cls(
            entry=entry.content.decode(),
            leaf_index=entry.seq - 1,
            tree_size=size,
            inclusion_proof=tree.inclusion_proof(entry.seq - 1, size),
            checkpoint=checkpoint_note,
        )


def verify_receipt(receipt: InclusionReceipt, verifying_key: VerifyingKey) -> dict[str, Any]:
    """What the entry says, if the log with this key has vouched for it. Needs no store, network or clock.

    Every way to fail is a ``NotProven`` of its own: what ``Checkpoint.verify`` and ``verify_inclusion`` raise,
    ``SizeMismatch`` between receipt and checkpoint, and ``MalformedEntry`` or ``MisplacedEntry`` if the log has
    vouched for something that no honest ledger holds.
    """
    checkpoint = Checkpoint.verify(receipt.checkpoint, (verifying_key,))
    if checkpoint.size != receipt.tree_size:
        raise SizeMismatch(tree_size=receipt.tree_size, checkpoint_size=checkpoint.size)
    content = receipt.entry.encode()
    verify_inclusion(
        leaf_hash=leaf_hash(content),
        index=receipt.leaf_index,
        size=checkpoint.size,
        root=checkpoint.root_hash,
        proof=receipt.inclusion_proof,
    )
    return _entry_at(receipt.leaf_index, content)


def _entry_at(index: int, content: bytes) -> dict[str, Any]:
    try:
        told = parse(content)
    except NotCanonical as error:
        raise MalformedEntry(index=index, problem=str(error)) from None
    if not isinstance(told, dict) or canonical_bytes(told) != content:
        raise MalformedEntry(index=index, problem="it is no canonical JSON object")
    seq = told.get("seq")
    if type(seq) is not int:
        raise MalformedEntry(index=index, problem="it has no number")
    if seq != index + 1:
        raise MisplacedEntry(seq=seq, index=index, expected=index + 1)
    return told
