"""Approving, rejecting and verifying in the console."""

import json
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from httpx2 import Response

from standfast.govern.approvals.approvals import Statement, list_bytes, signed_list_of
from standfast.govern.approvals.sshsig import sign
from tests.govern import openssh
from tests.server.console.conftest import BrowserClient, browser_client, elements_of, words_of
from tests.server.console.sample_server import SampleServer, sample_server


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_the_shown_command_makes_the_signature_that_decides(tmp_path: Path, decision: str) -> None:
    """The command on the page is run as it is, with the path of a key."""
    with (
        sample_server(tmp_path, memory_only=True) as harness,
        browser_client(harness, harness.operator) as client,
    ):
        page = client.get(harness.pages()["proposal"])
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
        answer = client.post(
            "/console/proposal",
            id=harness.proposal_id,
            statement=statement,
            signature=signature,
            **{"in": harness.namespace},
        )
        after = client.get(answer.headers["location"])
        listed = client.get("/console/approvals?decided=1")
        sealed = words_of(client.get("/console/search?band=VAULT"))
        verified = words_of(client.post("/console/ledger"))

    assert shown
    assert answer.status_code == 303
    assert "alice@example.com" in words_of(after)
    assert "law/refunds" in words_of(listed)
    assert ("Refunds over 500 euros" in sealed) == (decision == "approve")
    assert "No problem found" in verified


def test_a_refused_signature_can_be_corrected(harness: SampleServer, operator: BrowserClient) -> None:
    statement = _value(operator.get(harness.pages()["proposal"]), "approve")
    answer = operator.post(
        "/console/proposal", id=harness.proposal_id, statement=statement, signature="not one"
    )

    assert answer.status_code == 422
    assert "The signature was refused; nothing was changed" in words_of(answer)
    assert _value(answer, "approve") == statement
    assert "not one" in words_of(answer)


def test_an_auditor_has_no_form_and_can_not_submit(
    harness: SampleServer, operator: BrowserClient, auditor: BrowserClient
) -> None:
    statement = _value(operator.get(harness.pages()["proposal"]), "approve")
    page = auditor.get(harness.pages()["proposal"])
    answer = auditor.post("/console/proposal", id=harness.proposal_id, statement=statement, signature="x")

    assert "Your key can't submit a signature" in words_of(page)
    assert answer.status_code == 403


def test_verification_shows_details_only_to_keys_for_all_namespaces(tmp_path: Path) -> None:
    with (
        sample_server(tmp_path, memory_only=True) as harness,
        browser_client(harness, harness.operator) as operator,
        browser_client(harness, harness.agent) as agent,
    ):
        for client in (operator, agent):
            client.get("/console/ledger")
        intact = words_of(operator.post("/console/ledger"))
        entries = harness.gateway.store._storage._entries  # type: ignore[attr-defined]
        original = entries[4]
        entries[4] = msgspec.structs.replace(original, hash="0" * 64)
        broken, limited = words_of(operator.post("/console/ledger")), words_of(agent.post("/console/ledger"))
        entries[4] = original

    assert "No problem found" in intact
    assert "entry 5" in broken.lower()
    assert "problem" in limited
    assert "Details are shown to callers whose key is for all namespaces." in limited


def test_what_is_ticked_is_shown_in_full_and_decided_by_one_signature(tmp_path: Path) -> None:
    with (
        sample_server(tmp_path, memory_only=True) as harness,
        browser_client(harness, harness.operator) as client,
    ):
        memory = harness.gateway.home
        memory.remember(
            "Parcels to Norway need a form.", source={"kind": "doc", "id": "handbook"}, propose=True
        )
        ids = [one.proposal.proposal_id for one in memory.approvals.waiting()]
        boxes = [
            str(attributes["name"])
            for _, attributes in elements_of(client.get("/console/approvals"))
            if str(attributes.get("name", "")).startswith("p-")
        ]
        ticked = "&".join(f"{box}=on" for box in boxes)
        page = client.get(f"/console/sign?decision=approve&{ticked}")
        listed = next(
            str(attributes["value"])
            for _, attributes in elements_of(page)
            if attributes.get("name") == "statements"
        )
        statements = [Statement.from_json(one) for one in json.loads(listed)]
        text = list_bytes(signed_list_of(statements))
        refused = client.post("/console/sign", statements=listed, signature="not one")
        signature = sign(openssh.private_key("alice"), text, "standfast-seal")
        answer = client.post("/console/sign", statements=listed, signature=signature)
        sealed = words_of(client.get("/console/search?band=VAULT"))

    assert sorted(boxes) == sorted(f"p-{one}" for one in ids)
    assert text.decode() in words_of(page)
    assert "was not decided" in words_of(refused)
    assert answer.status_code == 303
    assert "Parcels to Norway need a form." in sealed
    assert "Refunds over 500 euros" in sealed


def test_the_list_has_the_reason_on_top_and_what_is_replaced_beside(tmp_path: Path) -> None:
    with (
        sample_server(tmp_path, memory_only=True) as harness,
        browser_client(harness, harness.operator) as client,
    ):
        memory = harness.gateway.home
        handbook = {"kind": "doc", "id": "handbook"}
        memory.remember(
            "EU refunds take 60 days.", subject="policy/eu-refunds", hold="too long?", source=handbook
        )
        memory.remember(
            "Ada never gets refunds.", scope="user/ada", propose=True, source=handbook, agent="bo"
        )
        waiting = words_of(client.get("/console/approvals"))
        of_user = words_of(client.get("/console/approvals?scope=user/ada"))
        of_bo = words_of(client.get("/console/approvals?author=bo"))
        held = words_of(client.get("/console/approvals?verdict=888_HOLD"))
        none = words_of(client.get("/console/approvals?author=nobody"))

    changed = waiting[waiting.index("policy/eu-refunds") :]
    assert changed.index("too long?") < changed.index("Memory now EU refunds take 30 days")
    assert "Proposed EU refunds take 30 60 days" in changed
    assert "Ada never gets refunds. waiting It was proposed as law" in waiting, "text first, no id, and once"
    assert "Ada never gets refunds." in of_user
    assert "Ada never gets refunds." in of_bo
    assert "Somebody should look at this." not in of_user + of_bo
    assert "Ada never gets refunds." not in held
    assert "Somebody should look at this." in held
    assert "No proposal fits" in none


def test_all_of_a_page_are_ticked_without_a_script(harness: SampleServer, operator: BrowserClient) -> None:
    boxes = [
        attributes
        for address in ("/console/approvals", "/console/approvals?ticked=all")
        for _, attributes in elements_of(operator.get(address))
        if attributes.get("type") == "checkbox" and attributes.get("form") == "together"
    ]

    assert ["checked" in attributes for attributes in boxes] == [False, False, True, True]


def _value(answer: Response, decision: str) -> str:
    """The statement in the form of a decision."""
    statements = [
        str(attributes["value"])
        for _, attributes in elements_of(answer)
        if attributes.get("name") == "statement"
    ]
    return next(one for one in statements if f'"decision":"{decision}"' in one)
