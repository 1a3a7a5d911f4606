"""A witness over HTTP cosigns what extends what it has seen, and nothing else."""

import base64
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from standfast import Memory
from standfast.cli import main
from standfast.clock import ManualClock
from standfast.errors import InvalidValue, NotProven
from standfast.ledger import Checkpoint, CheckpointFile, Notary, SigningKey
from standfast.ledger.cosigning import Cosigner, Witness, WitnessKey, cosignature_line
from standfast.ledger.tree import Tree
from standfast.store.opening import open_store
from tests.ledger.builders import LOG_KEY, entries
from tests.ledger.kept import cut_after, tamper
from tests.raising import raises_code

KEY = SigningKey(name="witness.example/w1", seed=bytes(range(32)))
LEDGER = entries(20)
TREE = Tree(entry.hash for entry in LEDGER)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(KEY, [LOG_KEY.verifying_key], tmp_path / "witness", clock=ManualClock())


@contextmanager
def _served(witness: Witness) -> Iterator[str]:
    with witness.served("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def url(witness: Witness) -> Iterator[str]:
    """Where the witness answers."""
    with _served(witness) as place:
        yield place


def _note(size: int, tree: Tree = TREE, key: SigningKey = LOG_KEY) -> str:
    return Checkpoint(origin=key.name, size=size, root_hash=tree.root(size)).sign([key])


def _body(old: int, note: str, proof: tuple[str, ...] = ()) -> bytes:
    lines = (base64.b64encode(bytes.fromhex(one)).decode() for one in proof)
    return ("\n".join([f"old {old}", *lines]) + "\n\n" + note).encode()


def _post(url: str, body: bytes, path: str = "/add-checkpoint") -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, body), timeout=10) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_a_cosignature_is_what_the_standard_says() -> None:
    """Held against the bytes of c2sp.org/tlog-cosignature, with nothing of ours."""
    text = _note(3).partition("\n\n")[0] + "\n"
    name, encoded = cosignature_line(KEY, text, 1_679_315_147).removeprefix("— ").split()
    raw = base64.b64decode(encoded)
    public = Ed25519PublicKey.from_public_bytes(KEY.verifying_key.public_bytes)

    public.verify(raw[12:], f"cosignature/v1\ntime 1679315147\n{text}".encode())
    assert name == KEY.name
    assert raw[:4].hex() == WitnessKey.of(KEY.verifying_key).key_id
    assert int.from_bytes(raw[4:12], "big") == 1_679_315_147


def test_the_key_of_a_witness_reads_back_and_is_no_key_of_a_log() -> None:
    key = WitnessKey.of(KEY.verifying_key)

    assert WitnessKey.parse(key.text) == key
    for wrong in (KEY.verifying_key.text, key.text.replace("w1", "w2"), "w", ""):
        with pytest.raises(InvalidValue):
            WitnessKey.parse(wrong)


def test_a_witness_cosigns_what_extends_what_it_has_seen(url: str) -> None:
    first = _post(url, _body(0, _note(5)))
    again = _post(url, _body(5, _note(5)))
    second = _post(url, _body(5, _note(12), TREE.consistency_proof(5, 12)))
    key = WitnessKey.of(KEY.verifying_key)

    for (status, _, line), size in ((first, 5), (again, 5), (second, 12)):
        assert status == 200
        assert key.cosigned_at(_note(size) + line) == int(ManualClock().now().timestamp())
    with pytest.raises(NotProven):
        key.cosigned_at(_note(5) + second[2])


def test_a_witness_refuses_everything_else(url: str, tmp_path: Path) -> None:
    other = SigningKey(name="example.com/other", seed=bytes(32))
    forged = SigningKey(name=LOG_KEY.name, seed=bytes(32))
    branch = Tree(one.hash for one in [*LEDGER[:4], *reversed(LEDGER)])
    _post(url, _body(0, _note(5)))
    proof = TREE.consistency_proof(5, 12)

    assert _post(url, _body(0, _note(12)))[::2] == (409, "5\n")
    assert _post(url, _body(0, _note(12)))[1] == "text/x.tlog.size"
    assert _post(url, _body(5, _note(5, branch)))[::2] == (409, "5\n")
    assert _post(url, _body(5, _note(12, branch), branch.consistency_proof(5, 12)))[0] == 422
    assert _post(url, _body(5, _note(12), proof[:-1]))[0] == 422
    assert _post(url, _body(5, _note(4)))[0] == 400
    assert _post(url, _body(5, _note(12, key=other), proof))[0] == 404
    assert _post(url, _body(5, _note(12, key=forged), proof))[0] == 403
    for body in (b"", b"old 5\n\nx", b"old 05\n\n" + _note(5).encode(), b"\xff\n\n", b"old 5\nxx\n\n"):
        assert _post(url, body)[0] == 400
    assert _post(url, b"x", path="/else")[0] == 404
    # Nothing of all that was remembered, also not by a witness that starts again.
    again = Witness(KEY, [LOG_KEY.verifying_key], tmp_path / "witness", clock=ManualClock())
    assert again.add_checkpoint(_body(5, _note(12), proof)).status == 200
    assert again.add_checkpoint(_body(5, _note(12), proof)).body == "12\n"


def _memory(path: Path, url: str) -> Memory:
    store = open_store(str(path), create=True)
    checkpoints = CheckpointFile(path.with_name("checkpoints"))
    notary = Notary(LOG_KEY, checkpoints, store.entries, store.branches, announce=store.announce_key)
    notary.set_witness(url, WitnessKey.of(KEY.verifying_key))
    return Memory(store, notary=notary)


def test_checkpoints_are_cosigned_kept_and_verified(tmp_path: Path, url: str) -> None:
    memory = _memory(tmp_path / "store.db", url)
    memory.remember("The gate opens at noon.")
    memory.checkpoint()
    memory.remember("The gate is shut.")
    memory.checkpoint()
    found = memory.verification()
    kept = CheckpointFile(tmp_path / "checkpoints.cosigned").read().notes
    memory.remember("The gate is open.")
    behind = memory.verification()

    assert (found.state, found.problems) == ("sound", ())
    assert len(kept) == 2
    assert found.tail.cosigned_seq == found.tail.newest_seq
    assert found.summary.endswith(f"The witness {KEY.name} has cosigned up to entry {found.entries}.")
    assert (behind.tail.cosigned_seq, behind.tail.newest_seq) == (found.entries, behind.entries)
    forged = [kept[0], kept[1].replace(f"— {KEY.name} ", f"— {KEY.name}x ")]
    (tmp_path / "checkpoints.cosigned").unlink()
    for note in forged:
        CheckpointFile(tmp_path / "checkpoints.cosigned").append(note)
    assert any(f"{KEY.name} has not cosigned it" in problem for problem in memory.verify())
    memory.store.close()


def test_a_store_that_was_cut_with_everything_next_to_it_gets_no_cosignature(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever did it has the log's key, and removed every trace on this machine."""
    path = tmp_path / "store.db"
    memory = _memory(path, url)
    for number in range(5):
        memory.remember(f"Gate {number} opens at noon.")
    memory.checkpoint()
    memory.store.close()
    tamper(path, cut_after(2), "DELETE FROM temporary WHERE kind = 'ledger'")
    for name in ("checkpoints", "checkpoints.edge", "checkpoints.cosigned", "store.db-files/head"):
        (tmp_path / name).unlink()
    memory = _memory(path, url)
    memory.remember("Nothing happened.")
    memory.checkpoint()

    assert "has cosigned 11 entries of this log, which now has" in caplog.text
    assert memory.verification().tail.cosigned_seq == 0
    memory.store.close()


def test_a_witness_that_is_out_of_reach_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = _memory(tmp_path / "store.db", "http://127.0.0.1:9")
    memory.remember("The gate opens at noon.")
    note = memory.checkpoint()

    assert note is not None
    assert "it can't be reached" in caplog.text
    assert memory.verification().state == "sound"
    memory.store.close()


def test_an_answer_of_another_key_is_not_kept(tmp_path: Path, url: str) -> None:
    other = SigningKey(name=KEY.name, seed=bytes(32))
    file = CheckpointFile(tmp_path / "cosigned")
    cosigner = Cosigner(url, WitnessKey.of(other.verifying_key), file)
    with raises_code("not_cosigned"):
        cosigner.cosign(_note(5), TREE.consistency_proof)

    assert file.read().notes == ()


def test_settings_name_the_witness(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    key = tmp_path / "log.key"
    key.write_text(LOG_KEY.secret_text)
    monkeypatch.setenv("STANDFAST_LOG_KEY", str(key))
    monkeypatch.setenv("STANDFAST_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("STANDFAST_WITNESS", url)
    run = CliRunner()
    alone = run.invoke(main, ["verify", "--store", "agent.db"])
    monkeypatch.setenv("STANDFAST_WITNESS_KEY", WitnessKey.of(KEY.verifying_key).text)
    run.invoke(main, ["init", "--store", "agent.db"])
    run.invoke(main, ["remember", "EU refunds take 14 days.", "--store", "agent.db"])
    found = run.invoke(main, ["verify", "--store", "agent.db"])

    assert (alone.exit_code, "witness_key" in alone.output) == (2, True)
    assert (found.exit_code, f"The witness {KEY.name} has cosigned up to entry" in found.output) == (0, True)


@pytest.mark.parametrize("problem", ["key", "file", "folder", "port"])
def test_a_witness_that_can_not_be_started_says_why(tmp_path: Path, problem: str) -> None:
    (tmp_path / "taken").write_text("no key")
    log = {"key": "no key", "file": str(tmp_path / "taken")}.get(problem, LOG_KEY.verifying_key.text)
    folder = tmp_path / "taken" / "below" if problem == "folder" else tmp_path / "witness"
    words = ["witness", "--name", "w.example/1", "--log", log, "--folder", str(folder)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if problem == "port" else 0
        told = CliRunner().invoke(main, [*words, "--host", "127.0.0.1", "--port", str(port)])

    assert told.exit_code == 2, told.output
    assert ("--log" if problem in ("key", "file") else "it can't be started") in told.output
    assert "Traceback" not in told.output
