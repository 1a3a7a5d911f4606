"""Deciding and verifying: what is shown is what is signed, and what is wrong is told to those who may know."""

import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from httpx2 import Response

from tests.govern import openssh
from tests.server.console.conftest import Visitor, elements_of, visiting, words_of
from tests.server.console.furnished import Furnished, furnished


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_the_command_that_is_shown_signs_what_decides(tmp_path: Path, decision: str) -> None:
    """The shell runs it as it stands on the page, with the path of a key of one's own."""
    with furnished(tmp_path, memory_only=True) as harness, visiting(harness, harness.operator) as visitor:
        page = visitor.get(harness.pages()["proposal"])
        statement = _value(page, decision)
        key = openssh.key_file(tmp_path, openssh.private_key("alice"))
        command = (
            f"printf %s {shlex.quote(statement)} | ssh-keygen -Y sign -n standfast-seal -f ~/.ssh/id_ed25519"
        )
        shown = command in words_of(page)
        openssh.tool("ssh-keygen")
        signature = subprocess.run(
            command.replace("~/.ssh/id_ed25519", shlex.quote(str(key))),
            shell=True,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        answer = visitor.post(
            "/console/proposal",
            id=harness.proposal_id,
            statement=statement,
            signature=signature,
            **{"in": harness.namespace},
        )
        after = visitor.get(answer.headers["location"])
        listed = visitor.get("/console/approvals?decided=1")
        sealed = words_of(visitor.get("/console/memory?band=VAULT"))
        verified = words_of(visitor.post("/console/ledger"))

    assert shown
    assert answer.status_code == 303
    assert "alice@example.com" in words_of(after)
    assert "law/refunds" in words_of(listed)
    assert ("Refunds over 500 euros" in sealed) == (decision == "approve")
    assert "Everything holds" in verified


def test_a_signature_that_does_not_count_is_refused_and_can_be_mended(
    harness: Furnished, operator: Visitor
) -> None:
    statement = _value(operator.get(harness.pages()["proposal"]), "approve")
    answer = operator.post(
        "/console/proposal", id=harness.proposal_id, statement=statement, signature="not one"
    )

    assert answer.status_code == 422
    assert "The signature was refused; nothing was changed" in words_of(answer)
    assert _value(answer, "approve") == statement
    assert "not one" in words_of(answer)


def test_an_auditor_is_shown_no_form_and_can_hand_in_nothing(
    harness: Furnished, operator: Visitor, auditor: Visitor
) -> None:
    statement = _value(operator.get(harness.pages()["proposal"]), "approve")
    page = auditor.get(harness.pages()["proposal"])
    answer = auditor.post("/console/proposal", id=harness.proposal_id, statement=statement, signature="x")

    assert "Your key can look" in words_of(page)
    assert answer.status_code == 403


def test_verifying_tells_what_is_wrong_to_those_who_oversee_everything(tmp_path: Path) -> None:
    with (
        furnished(tmp_path, memory_only=True) as harness,
        visiting(harness, harness.operator) as operator,
        visiting(harness, harness.agent) as agent,
    ):
        for visitor in (operator, agent):
            visitor.get("/console/ledger")
        sound = words_of(operator.post("/console/ledger"))
        entries = harness.gateway.store._storage._entries  # type: ignore[attr-defined]
        kept = entries[4]
        entries[4] = msgspec.structs.replace(kept, hash="0" * 64)
        broken, limited = words_of(operator.post("/console/ledger")), words_of(agent.post("/console/ledger"))
        entries[4] = kept

    assert "Everything holds" in sound
    assert "entry 5" in broken.lower()
    assert "problem" in limited
    assert "What is wrong is told to those whose key is for all namespaces." in limited


def _value(answer: Response, decision: str) -> str:
    """The statement in the form of a decision."""
    statements = [
        str(attributes["value"])
        for _, attributes in elements_of(answer)
        if attributes.get("name") == "statement"
    ]
    return next(one for one in statements if f'"decision":"{decision}"' in one)
