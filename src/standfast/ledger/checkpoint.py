"""Checkpoints (c2sp.org/tlog-checkpoint), the file that keeps them, and receipts that rest on them.

    example.com/behind-the-sofa
    20852163
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

A checkpoint is a signed note of a tree's size and root. Whoever keeps one can prove later that the ledger was
changed, cut or rolled back. A receipt is an entry, its path to the root, and a checkpoint in which the log
has signed that root; it can be checked years later with nothing but a public key. ``docs/verify.md`` says how
to do that without Standfast.
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

from standfast.durable import sync_folder
from standfast.errors import InvalidValue, NotCanonical, NotProven, StoreError
from standfast.ledger.chain import Branch, Entry, leaf_hash
from standfast.ledger.note import SigningKey, VerifyingKey, decoded_base64, open_note, unverified_text
from standfast.ledger.note import sign as sign_note
from standfast.ledger.tree import EMPTY_ROOT, Tree, verify_consistency, verify_inclusion
from standfast.limits import MAX_NOTE_BYTES, MAX_PROOF_HASHES, MAX_TREE_SIZE, MAX_VALUE_BYTES
from standfast.records.canon import canonical_bytes, normal_string, parse
from standfast.records.vocabulary import Value

_SIZE: Final = re.compile("0|[1-9][0-9]{0,15}")
_HASH_BYTES: Final = 32
_BLOCK_BYTES: Final = 1 << 14
_BRANCH: Final = "branch "
# A line that a crash cut short: a JSON string that does not end, and has nothing behind a whole signature.
_CUT_SHORT: Final = re.compile(rb'"(?!.*u2014 [^ ]+ [A-Za-z0-9+/=]+\\n.)(?:[^"\\\x00-\x1f\x7f-\xff]|\\.)*\\?')


class Checkpoint(Value, frozen=True, kw_only=True):
    """The size and root of the tree of the log ``origin``. Its ``text`` is what is signed."""

    origin: str
    size: int
    root_hash: str
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._require_name("origin", self.origin)
        self._require(
            type(self.size) is int and 0 <= self.size <= MAX_TREE_SIZE,
            f"size must be an integer from 0 to {MAX_TREE_SIZE}",
        )
        self._require_digest("root_hash", self.root_hash)
        self._require(
            self.size > 0 or self.root_hash == EMPTY_ROOT, "root_hash is not that of the empty tree"
        )
        for line in self.extensions:
            self._require_name("a line of extensions", line)

    @property
    def branch_id(self) -> str | None:
        """The branch of the ledger that it is of; None for the first."""
        named = (line.removeprefix(_BRANCH) for line in self.extensions if line.startswith(_BRANCH))
        return next(named, None)

    @classmethod
    def of_branch(cls, branch: Branch | None, *, origin: str, size: int, root_hash: str) -> Self:
        """The checkpoint of a tree. It names its branch, if that began with a restore."""
        extensions = (f"{_BRANCH}{branch.branch_id}",) if branch is not None and branch.number else ()
        return cls(origin=origin, size=size, root_hash=root_hash, extensions=extensions)

    def is_of(self, branch: Branch) -> bool:
        """Whether it was signed on this branch."""
        return self.branch_id == (branch.branch_id if branch.number else None)

    def is_left(self, branches: Sequence[Branch]) -> bool:
        """Whether it covers entries that a restore left behind. It and the ledger need not agree then."""
        numbers = {branch.branch_id: branch.number for branch in branches}
        number = 0 if self.branch_id is None else numbers.get(self.branch_id)
        if number is None:
            # Of a branch that was itself left by going back behind its beginning.
            later = [branch for branch in branches[-1:] if branch.number]
        else:
            later = [branch for branch in branches if branch.number > number]
        return any(branch.shared_seq < self.size <= branch.left_seq for branch in later)

    @property
    def text(self) -> str:
        """The checkpoint as lines of text."""
        root = base64.b64encode(bytes.fromhex(self.root_hash)).decode()
        return "".join(f"{line}\n" for line in (self.origin, self.size, root, *self.extensions))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the checkpoint from its ``text``; anything else raises ``malformed_checkpoint``."""
        if not isinstance(text, str) or not text.endswith("\n"):
            raise NotProven("malformed_checkpoint", problem="it does not end in a newline")
        # Not splitlines, which also splits at line ends that only Unicode knows.
        lines = text[:-1].split("\n")
        if len(lines) < 3:
            raise NotProven("malformed_checkpoint", problem="it has fewer than three lines")
        origin, size, root, *extensions = lines
        if not _SIZE.fullmatch(size):
            raise NotProven("malformed_checkpoint", problem="its second line is not a size in decimal digits")
        root_hash = decoded_base64(root)
        if root_hash is None or len(root_hash) != _HASH_BYTES:
            raise NotProven("malformed_checkpoint", problem="its third line is not a SHA-256 in base64")
        try:
            return cls(origin=origin, size=int(size), root_hash=root_hash.hex(), extensions=tuple(extensions))
        except InvalidValue as error:
            raise NotProven("malformed_checkpoint", problem=error.facts["problem"]) from None

    def sign(self, keys: Iterable[SigningKey]) -> str:
        """Sign the checkpoint with each key. One of them must be the log's own: its name is the origin."""
        keys = tuple(keys)
        _require_own(self, (key.name for key in keys))
        return sign_note(self.text, keys)

    @classmethod
    def verify(cls, note: str, keys: Iterable[VerifyingKey]) -> Self:
        """Return the checkpoint in a note that the log has signed with one of these keys.

        Raises what ``open_note`` raises, ``NotProven`` (``malformed_checkpoint``) if the note is no
        checkpoint, and ``NotProven`` (``foreign_log``) if no signer is named as the origin, because a key
        speaks for its own log only.
        """
        text, signers = open_note(note, keys)
        checkpoint = cls.parse(text)
        _require_own(checkpoint, (signer.name for signer in signers))
        return checkpoint

    def verify_extends(self, older: "Checkpoint", proof: Sequence[str]) -> None:
        """Check the proof that this tree extends an older one; ``NotProven`` (``bad_consistency``) if not.

        Verify both checkpoints first.
        """
        if older.origin != self.origin:
            raise NotProven("foreign_log", origin=older.origin, expected=self.origin)
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
        raise NotProven("foreign_log", origin=checkpoint.origin, expected=", ".join(names))


class CheckpointFileContent(Value, frozen=True, kw_only=True):
    """The notes in a file of checkpoints, in order, not verified, and the numbers of its damaged lines.

    ``torn_lines`` hold no whole note. ``healed_lines`` are those of them that a crash cut short.
    """

    notes: tuple[str, ...]
    torn_lines: tuple[int, ...] = ()
    healed_lines: tuple[int, ...] = ()


class CheckpointFile:
    """An append-only file of signed checkpoints, kept apart from the database that they vouch for.

    Each line is one note as a JSON string, so that a torn line never runs into the next. Nothing is rewritten
    or cut, so a file system's append-only flag can be set. Processes may share the file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, note: str) -> None:
        """Add one signed checkpoint durably.

        After ``StoreError`` (``checkpoint_file_failed``) it may be there, or a part of it.
        """
        Checkpoint.parse(unverified_text(note))
        with self._locked() as descriptor:
            _append_line(descriptor, note)
            sync_folder(self.path.parent)

    def extend(self, following: Callable[[Iterator[str]], str | None]) -> None:
        """Add the note that ``following`` makes of the present ones, if any, with other processes kept out.

        ``following`` gets the whole notes, the newest first. They are read as they are asked for.
        """
        with self._locked() as descriptor:
            if next(_newest_notes(descriptor), None) is None:
                # The file itself must be durable before anything is made that relies on it.
                sync_folder(self.path.parent)
            if (note := following(_newest_notes(descriptor))) is not None:
                _append_line(descriptor, note)

    def newest(self) -> Iterator[str]:
        """The whole notes, the newest first, read as they are asked for; a missing file is empty."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed(error) from error
        try:
            yield from _newest_notes(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> CheckpointFileContent:
        """Read the file; a missing one is empty."""
        try:
            return _parse_file(self.path.read_bytes())
        except FileNotFoundError:
            return CheckpointFileContent(notes=())
        except OSError as error:
            raise self._failed(error) from error

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open or create the file, and keep other processes from adding to it meanwhile."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StoreError:
        return StoreError("checkpoint_file_failed", file=str(self.path), problem=error.strerror or str(error))


def _append_line(descriptor: int, note: str) -> None:
    line = json.dumps(note).encode() + b"\n"
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        # An earlier append was torn. What it left becomes a line of its own.
        line = b"\n" + line
    if os.write(descriptor, line) != len(line):
        raise OSError("only a part of the line was written; the disk may be full")
    os.fsync(descriptor)


def _newest_notes(descriptor: int) -> Iterator[str]:
    """The whole notes of a file from its end on, read block by block."""
    place, rest = os.fstat(descriptor).st_size, b""
    while place:
        length = min(_BLOCK_BYTES, place)
        place -= length
        first, *lines = (os.pread(descriptor, length, place) + rest).split(b"\n")
        yield from filter(None, (_note_in(line) for line in reversed(lines)))
        rest = first
    if (note := _note_in(rest)) is not None:
        yield note


def _parse_file(content: bytes) -> CheckpointFileContent:
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    notes = [_note_in(line) for line in lines]
    torn = [number for number, note in enumerate(notes, 1) if note is None]
    return CheckpointFileContent(
        notes=tuple(note for note in notes if note is not None),
        torn_lines=tuple(torn),
        healed_lines=tuple(n for n in torn if _CUT_SHORT.fullmatch(lines[n - 1])),
    )


def _note_in(line: bytes) -> str | None:
    try:
        note = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, str) else None


class InclusionReceipt(Value, frozen=True, kw_only=True):
    """An entry's text, its index in a tree, the proof of it, and a signed checkpoint of that tree.

    A receipt proves something only after ``verify_receipt``.
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
            f"leaf_index and tree_size must be integers, 0 <= leaf_index < tree_size <= {MAX_TREE_SIZE}",
        )
        self._require(
            isinstance(self.inclusion_proof, tuple) and len(self.inclusion_proof) <= MAX_PROOF_HASHES,
            f"inclusion_proof must be a tuple of at most {MAX_PROOF_HASHES} hashes",
        )
        for digest in self.inclusion_proof:
            self._require_digest("each hash of inclusion_proof", digest)
        self._require_text("checkpoint", self.checkpoint, most_bytes=MAX_NOTE_BYTES)

    def _require_text(self, field: str, text: str, *, most_bytes: int) -> None:
        """A receipt is sent as JSON, whose strings are in NFC; any other text would come back changed."""
        try:
            fits = (
                len(text) <= most_bytes and normal_string(text) == text and len(text.encode()) <= most_bytes
            )
        except (AttributeError, TypeError, NotCanonical):
            fits = False
        self._require(fits, f"{field} must be text in NFC of at most {most_bytes} bytes")

    @classmethod
    def of(cls, entry: Entry, tree: Tree, checkpoint_note: str) -> Self:
        """Make the receipt of an entry of ``tree``, for the size that the signed checkpoint names."""
        size = Checkpoint.parse(unverified_text(checkpoint_note)).size
        return cls(
            entry=entry.content.decode(),
            leaf_index=entry.seq - 1,
            tree_size=size,
            inclusion_proof=tree.inclusion_proof(entry.seq - 1, size),
            checkpoint=checkpoint_note,
        )


def verify_receipt(receipt: InclusionReceipt, verifying_key: VerifyingKey) -> dict[str, Any]:
    """Return the content of the entry, if the log with this key has signed for it.

    Needs no store, network or clock.

    Every failure is a ``NotProven``: what ``Checkpoint.verify`` and ``verify_inclusion`` raise,
    ``NotProven`` (``size_mismatch``) between receipt and checkpoint, and ``NotProven`` (``malformed_entry``)
    or ``NotProven`` (``misplaced_entry``) if the log has signed for something that no honest ledger holds.
    """
    checkpoint = Checkpoint.verify(receipt.checkpoint, (verifying_key,))
    if checkpoint.size != receipt.tree_size:
        raise NotProven("size_mismatch", tree_size=receipt.tree_size, checkpoint_size=checkpoint.size)
    content = receipt.entry.encode()
    verify_inclusion(
        leaf_hash=leaf_hash(content),
        index=receipt.leaf_index,
        size=checkpoint.size,
        root=checkpoint.root_hash,
        proof=receipt.inclusion_proof,
    )
    return _parse_entry(receipt.leaf_index, content)


def _parse_entry(index: int, content: bytes) -> dict[str, Any]:
    try:
        entry = parse(content)
    except NotCanonical as error:
        raise NotProven("malformed_entry", index=index, problem=str(error)) from None
    if not isinstance(entry, dict) or canonical_bytes(entry) != content:
        raise NotProven("malformed_entry", index=index, problem="it is not a canonical JSON object")
    seq = entry.get("seq")
    if type(seq) is not int:
        raise NotProven("malformed_entry", index=index, problem="it has no sequence number")
    if seq != index + 1:
        raise NotProven("misplaced_entry", seq=seq, index=index, expected=index + 1)
    return entry
