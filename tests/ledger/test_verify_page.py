"""docs/verify.md tells the truth: an auditor who types its commands, in order, finds what it says, and finds
a forgery.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from standfast.govern.approvals.approvals import Approval, Decision, Statement
from standfast.govern.approvals.signers import Signers
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE, sign
from standfast.memory import Memory
from tests.govern import openssh
from tests.ledger import independent
from tests.ledger.kept import Kept, cut_after, forge_from, tamper
from tests.memory.conftest import HANDBOOK

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
BLOCKS = [
    token.content
    for token in MarkdownIt().parse(PAGE.read_text(encoding="utf-8"))
    if token.type == "fence" and token.info == "sh"
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the page expects it: a store with facts and a sealed law, and the list of who may seal."""
    folder = tmp_path_factory.mktemp("agent")
    allowed = f'alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}\n'
    (folder / "allowed_signers").write_text(allowed, encoding="ascii")
    memory = Memory.open(str(folder / "agent.db"))
    for number in range(5):
        with memory.run(workflow="triage", mode="buffered_write", agent="drafter") as run:
            run.remember(f"Parcel {number} is in the dépôt.", source={"kind": "doc", "id": f"d{number}"})
    memory.checkpoint()
    with memory.run(workflow="triage", mode="buffered_write", agent="drafter") as run:
        run.remember("Refunds above 500 € need two people.", subject="law/1", source=HANDBOOK, propose=True)
    (waiting,) = memory.approvals.waiting()
    signers, now = Signers.parse(allowed), memory.store.clock.now()
    statement = Statement.about(
        waiting.proposal, decision=Decision.APPROVE, expires_at=now.replace(year=now.year + 1), nonce="1" * 32
    )
    armored = sign(openssh.private_key("alice"), statement.signed_bytes, SEAL_NAMESPACE)
    approval = Approval.of(statement, armored, signers=signers, at=now)
    memory.approvals.decide(approval, signers=signers)
    memory.close()
    return folder


def typed(folder: Path, *blocks: str) -> "subprocess.CompletedProcess[str]":
    """What comes of typing these blocks into a shell."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PATH": path, "TZ": "UTC"},
    )


@pytest.fixture(scope="module")
def receipted(agent: Path) -> Path:
    """The same folder after the first block, which asks for a receipt: what a forger and an auditor find."""
    assert typed(agent, BLOCKS[0]).returncode == 0
    return agent


@pytest.fixture
def copied(receipted: Path, tmp_path: Path) -> Path:
    shutil.copytree(receipted, tmp_path / "agent")
    return tmp_path / "agent"


def test_an_auditor_who_follows_the_page_finds_what_it_says(copied: Path) -> None:
    done = typed(copied, *BLOCKS)

    assert done.returncode == 0, done.stderr
    for told in (
        "Signature Verified Successfully",
        "the entry is in the ledger: ",
        "15 entries hold",
        'Good "standfast-seal" signature for alice@example.com',
        "sealed: Refunds above 500 € need two people.",
    ):
        assert told in done.stdout


def _change_the_receipt(folder: Path) -> None:
    receipt = json.loads((folder / "receipt.json").read_text(encoding="utf-8"))
    receipt["entry"] = receipt["entry"].replace("SEAL", "VOID")
    (folder / "receipt.json").write_text(json.dumps(receipt), encoding="utf-8")


def _change_the_checkpoint(folder: Path) -> None:
    receipt = json.loads((folder / "receipt.json").read_text(encoding="utf-8"))
    receipt["checkpoint"] = receipt["checkpoint"].replace("\n15\n", "\n16\n")
    (folder / "receipt.json").write_text(json.dumps(receipt), encoding="utf-8")


def _cut_the_ledger(folder: Path) -> None:
    tamper(folder / "agent.db", cut_after(5))


def _forge_the_ledger(folder: Path) -> None:
    tamper(folder / "agent.db", forge_from(3))


def _list_somebody_else(folder: Path) -> None:
    listed = f'alice@example.com namespaces="standfast-seal" {openssh.public_key("mallory").text}\n'
    (folder / "allowed_signers").write_text(listed, encoding="ascii")


@pytest.mark.parametrize(
    ("forgery", "told"),
    [
        (_change_the_receipt, "another root"),
        (_change_the_checkpoint, "Verification Failure"),
        (_cut_the_ledger, "the ledger ends before entry 11, which was signed for"),
        (_forge_the_ledger, "some entry up to 11 was changed"),
        (_list_somebody_else, "Could not verify signature"),
    ],
)
def test_an_auditor_who_follows_the_page_finds_a_forgery(
    copied: Path, forgery: Callable[[Path], None], told: str
) -> None:
    forgery(copied)
    done = typed(copied, *BLOCKS[1:])

    assert done.returncode != 0
    assert told in done.stdout + done.stderr


def test_the_second_implementation_verifies_a_real_store_end_to_end(kept: Kept) -> None:
    """1,000 entries of every kind, all checkpoints, receipts of the first, the last and others."""
    files = {name: kept.folder / f"store.db{name}" for name in ("", "-files/log.pub", "-files/checkpoints")}
    key = files["-files/log.pub"].read_text(encoding="ascii").strip()
    leaves = independent.open_store(str(files[""]))
    heads = independent.open_mirror(files["-files/checkpoints"].read_text(encoding="ascii"), key, leaves)
    memory = Memory.open(str(files[""]))
    receipts = {seq: memory.receipt(seq).as_json() for seq in (1, 2, 500, 999, 1_000)}
    memory.store.close()

    assert len(leaves) == 1_000
    assert heads[-1].size == 1_000
    assert len(heads) >= 6
    for seq, receipt in receipts.items():
        assert independent.open_receipt(receipt, key) == kept.entries[seq - 1].read()


def test_the_second_implementation_refuses_a_tampered_store(kept: Kept, tmp_path: Path) -> None:
    key = (kept.folder / "store.db-files/log.pub").read_text(encoding="ascii").strip()
    path = kept.copy(tmp_path / "copy")
    mirror = (path.with_name("store.db-files") / "checkpoints").read_text(encoding="ascii")
    tamper(path, forge_from(400))
    with pytest.raises(independent.RefusedError, match="another root"):
        independent.open_mirror(mirror, key, independent.open_store(str(path)))
    tamper(path, "UPDATE ledger SET content = x'007b7d' WHERE seq = 77")
    with pytest.raises(independent.RefusedError, match="entry 77"):
        independent.open_store(str(path))
