"""A second party that vouches: witnesses that cosign checkpoints, by c2sp.org/tlog-witness.

A log sends each checkpoint to a witness, with the proof that it extends the one that the witness cosigned
last. The witness remembers the newest one and answers with a cosignature (c2sp.org/tlog-cosignature), an
Ed25519 signature over the checkpoint and the time. So a ledger that was rolled back or rewritten gets no
cosignature any more, even if whoever did it has the log's key and every file next to the store.

``Cosigner`` is the log's side, ``Witness`` the other one. ``docs/verify.md`` says how to set both up.
"""

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple, Self

from standfast.clock import Clock
from standfast.errors import InvalidValue, NotProven, StandfastError, StoreError
from standfast.ledger.checkpoint import Checkpoint, CheckpointFile
from standfast.ledger.note import (
    SigningKey,
    VerifyingKey,
    decoded_base64,
    signatures_of,
    unverified_text,
)
from standfast.ledger.tree import EMPTY_ROOT, verify_consistency
from standfast.limits import MAX_NOTE_BYTES, MAX_PROOF_HASHES, WITNESS_SECONDS
from standfast.records.vocabulary import Value

COSIGNATURE_TYPE: Final = b"\x04"
_TIME_BYTES: Final = 8
_OLD: Final = re.compile("old (0|[1-9][0-9]{0,15})")
_SIZE_TYPE: Final = "text/x.tlog.size"
_MOST_BYTES: Final = MAX_NOTE_BYTES + 100 * MAX_PROOF_HASHES
ProofBetween = Callable[[int, int], Sequence[str]]
"""Proves that the tree of the second size extends that of the first."""


class WitnessKey(Value, frozen=True, kw_only=True):
    """The public key of a witness. ``text`` is its published form, with the type of a cosignature."""

    name: str
    public_bytes: bytes

    @classmethod
    def of(cls, key: VerifyingKey) -> Self:
        """The key of a witness that signs with this pair."""
        return cls(name=key.name, public_bytes=key.public_bytes)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the key from its ``text``; anything else is an ``InvalidValue``."""
        parts = text.split("+", 2) if isinstance(text, str) else []
        encoded = decoded_base64(parts[2]) if len(parts) == 3 else None
        if encoded is None or encoded[:1] != COSIGNATURE_TYPE:
            problem = "it must be name+8 hexadecimal digits+base64, of the type of a cosignature (4)"
            raise InvalidValue(what=cls.__name__, problem=problem)
        key = cls.of(VerifyingKey(name=parts[0], public_bytes=encoded[1:]))
        if key.key_id != parts[1]:
            raise InvalidValue(what=cls.__name__, problem="its id does not match its name and bytes")
        return key

    @property
    def key_id(self) -> str:
        """Eight hexadecimal digits that distinguish keys of one name."""
        hashed = hashlib.sha256(self.name.encode() + b"\n" + COSIGNATURE_TYPE + self.public_bytes)
        return hashed.hexdigest()[:8]

    @property
    def text(self) -> str:
        """The key as one word of text."""
        return f"{self.name}+{self.key_id}+{base64.b64encode(COSIGNATURE_TYPE + self.public_bytes).decode()}"

    def cosigned_at(self, note: str) -> int | None:
        """When this witness cosigned a note, in seconds since 1970; None if it has not. A cosignature of it
        that is wrong is a ``NotProven`` (``forged_note``).
        """
        for name, key_id, signature in signatures_of(note):
            if (name, key_id) != (self.name, self.key_id):
                continue
            at = int.from_bytes(signature[:_TIME_BYTES], "big")
            key = VerifyingKey(name=self.name, public_bytes=self.public_bytes)
            if not key.has_signed(_message(unverified_text(note), at), signature[_TIME_BYTES:]):
                raise NotProven("forged_note", name=name, key_id=key_id)
            return at
        return None


def _message(text: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def cosignature_line(key: SigningKey, text: str, at: int) -> str:
    """The line with which a witness cosigns the text of a checkpoint at an instant."""
    key_id = bytes.fromhex(WitnessKey.of(key.verifying_key).key_id)
    signature = key_id + at.to_bytes(_TIME_BYTES, "big") + key.sign(_message(text, at))
    return f"— {key.name} {base64.b64encode(signature).decode()}\n"


class Cosigner:
    """Asks a witness for cosignatures of a log's checkpoints, and keeps them.

    Args:
        url: Where the witness is: ``add-checkpoint`` is added to it.
        key: The witness's public key.
        file: Where cosigned checkpoints are kept.
    """

    def __init__(self, url: str, key: WitnessKey, file: CheckpointFile) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidValue(what="witness", problem="it must be an http:// or https:// URL")
        self.key = key
        self.file = file
        self._url = f"{url.rstrip('/')}/add-checkpoint"

    def cosign(self, note: str, proof_between: ProofBetween) -> str:
        """Return the checkpoint with the witness's cosignature, and keep it.

        If the witness does not cosign, that is a ``StoreError`` (``not_cosigned``).
        """
        newest = next(self.file.newest(), None)
        size = Checkpoint.parse(unverified_text(note)).size
        old = 0 if newest is None else Checkpoint.parse(unverified_text(newest)).size
        if newest is not None and unverified_text(newest) == unverified_text(note):
            return newest
        status, answer = self._post(min(old, size), note, proof_between)
        if status == 409 and answer.strip().isdigit() and int(answer) <= size:
            # It knows another checkpoint than we remember.
            status, answer = self._post(int(answer), note, proof_between)
        if status == 409 and answer.strip().isdigit():
            raise self._refused(f"it has cosigned {int(answer)} entries of this log, which now has {size}")
        if status != 200:
            raise self._refused(f"it answered {status}: {answer[:200].strip()}")
        try:
            cosigned = note + _own_line(answer, self.key)
            if self.key.cosigned_at(cosigned) is None:
                raise self._refused("its answer has no cosignature of its key")
        except NotProven as error:
            raise self._refused(str(error)) from None
        self.file.append(cosigned)
        return cosigned

    def _post(self, old: int, note: str, proof_between: ProofBetween) -> tuple[int, str]:
        import urllib.error  # noqa: PLC0415  # Slow to import, and only who has a witness needs it.
        import urllib.request  # noqa: PLC0415  # As above.

        size = Checkpoint.parse(unverified_text(note)).size
        proof = proof_between(old, size) if 0 < old < size else ()
        lines = (base64.b64encode(bytes.fromhex(one)).decode() for one in proof)
        body = "".join(f"{line}\n" for line in (f"old {old}", *lines, "")) + note
        request = urllib.request.Request(self._url, body.encode(), {"Content-Type": "text/plain"})  # noqa: S310  # The scheme was checked.
        try:
            with urllib.request.urlopen(request, timeout=WITNESS_SECONDS) as reply:  # noqa: S310  # As above.
                return reply.status, reply.read(MAX_NOTE_BYTES).decode(errors="replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(MAX_NOTE_BYTES).decode(errors="replace")
        except (OSError, ValueError) as error:
            raise self._refused(f"it can't be reached: {error}") from None

    def _refused(self, problem: str) -> StoreError:
        return StoreError("not_cosigned", witness=self.key.name, problem=problem)

    def problems(self) -> Iterator[str]:
        """Yield one message for each kept checkpoint that the witness has not cosigned."""
        for number, note in enumerate(self.file.read().notes, 1):
            try:
                at = self.key.cosigned_at(note)
            except StandfastError as error:
                yield f"cosigned checkpoint {number}: {error}"
            else:
                if at is None:
                    yield f"cosigned checkpoint {number}: {self.key.name} has not cosigned it"


def _own_line(answer: str, key: WitnessKey) -> str:
    """The line of an answer that is by this key; those of other keys are left out."""
    for line in answer.splitlines(keepends=True):
        with suppress(NotProven):
            ((name, key_id, _),) = signatures_of(f"x\n\n{line}")
            if (name, key_id) == (key.name, key.key_id):
                return line
    return ""


class WitnessAnswer(NamedTuple):
    """What a witness answers over HTTP."""

    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


class Witness:
    """Cosigns the checkpoints of some logs, each only if it extends the one before it.

    Args:
        key: What cosigns. Use it for nothing else.
        logs: The public keys of the logs.
        folder: Where the newest checkpoint of each log is kept. A witness that loses it must get a new key.
    """

    def __init__(self, key: SigningKey, logs: Sequence[VerifyingKey], folder: Path, *, clock: Clock) -> None:
        self._key = key
        self._logs: Mapping[str, list[VerifyingKey]] = {
            one.name: [other for other in logs if other.name == one.name] for one in logs
        }
        self._folder = folder
        self._clock = clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def public_key(self) -> WitnessKey:
        """What verifies its cosignatures."""
        return WitnessKey.of(self._key.verifying_key)

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """Answer a request of a log."""
        try:
            old, proof, note = _parse_request(body)
            origin = Checkpoint.parse(unverified_text(note)).origin
        except (StandfastError, ValueError) as error:
            return WitnessAnswer(400, f"{error}\n")
        if origin not in self._logs:
            return WitnessAnswer(404, "this log is not known here\n")
        try:
            checkpoint = Checkpoint.verify(note, self._logs[origin])
        except StandfastError as error:
            return WitnessAnswer(403, f"{error}\n")
        if old > checkpoint.size:
            return WitnessAnswer(400, "the old size is larger than the checkpoint's\n")
        answers: list[WitnessAnswer] = []

        def following(notes: Iterator[str]) -> str | None:
            # The file is locked: what is compared here is what is replaced.
            newest = next(notes, None)
            known = None if newest is None else Checkpoint.parse(unverified_text(newest))
            answers.append(self._judge(checkpoint, known, old, proof))
            is_new = known is None or checkpoint.size > known.size
            return note if answers[0].status == 200 and is_new else None

        file = hashlib.sha256(origin.encode()).hexdigest()[:32]
        CheckpointFile(self._folder / f"{file}.checkpoints").extend(following)
        return answers[0]

    def _judge(
        self, checkpoint: Checkpoint, known: Checkpoint | None, old: int, proof: Sequence[str]
    ) -> WitnessAnswer:
        size, root = (0, EMPTY_ROOT) if known is None else (known.size, known.root_hash)
        if old != size:
            return WitnessAnswer(409, f"{size}\n", _SIZE_TYPE)
        if old == checkpoint.size and root != checkpoint.root_hash:
            return WitnessAnswer(409, f"{size}\n", _SIZE_TYPE)
        try:
            verify_consistency(
                old_size=old,
                old_root=root,
                new_size=checkpoint.size,
                new_root=checkpoint.root_hash,
                proof=tuple(proof),
            )
        except NotProven as error:
            return WitnessAnswer(422, f"{error}\n")
        at = int(self._clock.now().timestamp())
        return WitnessAnswer(200, cosignature_line(self._key, checkpoint.text, at))

    def served(self, host: str, port: int) -> ThreadingHTTPServer:
        """An HTTP server with ``POST /add-checkpoint``. The log's signature authenticates a request."""
        return ThreadingHTTPServer((host, port), _handler_of(self))


def _handler_of(witness: Witness) -> type[BaseHTTPRequestHandler]:
    one_at_a_time = threading.Lock()

    class WitnessHandler(BaseHTTPRequestHandler):
        timeout = WITNESS_SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if self.path != "/add-checkpoint":
                answer = WitnessAnswer(404, "there is only /add-checkpoint\n")
            elif not length.isdigit() or int(length) > _MOST_BYTES:
                answer = WitnessAnswer(413, f"a request has at most {_MOST_BYTES} bytes\n")
            else:
                with one_at_a_time:
                    answer = witness.add_checkpoint(self.rfile.read(int(length)))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body.encode())))
            self.end_headers()
            self.wfile.write(answer.body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # The library's name.
            """Say nothing: the answers are in the caller's hands."""

    return WitnessHandler


def _parse_request(body: bytes) -> tuple[int, list[str], str]:
    """The old size, the proof and the checkpoint of a request; ``ValueError`` if it is none."""
    head, blank, note = body.decode().partition("\n\n")
    first, *lines = head.split("\n")
    matched = _OLD.fullmatch(first)
    if not blank or matched is None:
        raise ValueError("it must begin with 'old SIZE', a proof and an empty line")
    if len(lines) > MAX_PROOF_HASHES:
        raise ValueError(f"a proof has at most {MAX_PROOF_HASHES} lines")
    hashes = [decoded_base64(line) for line in lines]
    if any(one is None or len(one) != 32 for one in hashes):
        raise ValueError("each line of the proof must be a SHA-256 in base64")
    return int(matched[1]), [one.hex() for one in hashes if one is not None], note
