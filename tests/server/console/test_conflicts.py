"""What disagrees stands side by side, and a person settles it: one, both, neither, or many at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.govern.approvals.sshsig import sign
from tests.govern import openssh
from tests.memory.conftest import SECRET
from tests.server.console.conftest import BrowserClient, browser_client, elements_of, words_of
from tests.server.console.sample_server import SampleServer, sample_server

ADA = "user/ada"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SampleServer]:
    with sample_server(tmp_path, memory_only=True) as built:
        yield built


@pytest.fixture
def client(server: SampleServer) -> Iterator[BrowserClient]:
    with browser_client(server, server.operator) as signed_in:
        signed_in.get("/console/conflicts")
        yield signed_in


def test_both_sides_are_shown_with_their_sources(client: BrowserClient) -> None:
    text = words_of(client.get("/console/conflicts"))

    assert text.index("Shown first Ada lives in Cork.") < text.index("Also said Ada lives in Bergen.")
    assert "from doc:handbook, ordinary" in text


@pytest.mark.parametrize(
    ("keep", "left"),
    [("older", "Ada lives in Bergen."), ("newer", "Ada lives in Cork."), ("neither", "were withdrawn")],
)
def test_a_conflict_is_settled_by_what_a_person_keeps(
    server: SampleServer, client: BrowserClient, keep: str, left: str
) -> None:
    memory = server.gateway.home
    (conflict,) = memory.conflicts(scope=ADA)
    ids = {"newer": conflict.entries[0].memory_id, "older": conflict.entries[1].memory_id}
    choice = f"{conflict.conflict_id} {ids.get(keep, keep)}"
    without = client.post("/console/conflicts", settle=choice)
    answer = client.post("/console/conflicts", settle=choice, reason="Ada said so")

    assert (without.status_code, "say why" in words_of(without)) == (422, True)
    assert answer.status_code == 303
    assert memory.conflicts(scope=ADA) == []
    assert left in words_of(client.get(f"/console/scope?scope={ADA}"))
    assert "Nothing disagrees" in words_of(client.get(answer.headers["location"]))


def test_ticked_conflicts_are_settled_together_by_what_was_said_last(
    server: SampleServer, client: BrowserClient
) -> None:
    memory = server.gateway.home
    source = {"kind": "doc", "id": "handbook"}
    for text in ("Bo lives in Oslo.", "Bo lives in Rome."):
        memory.remember(text, scope="user/bo", source=source)
    ticked = {f"c-{one.conflict_id}": "on" for one in memory.conflicts(scope="*")}
    answer = client.post("/console/conflicts", reason="the newest holds", **ticked)
    again = client.post("/console/conflicts", reason="the newest holds", **ticked)

    assert len(ticked) == 2
    assert answer.headers["location"].endswith("settled=2")
    assert memory.conflicts(scope="*") == []
    assert "there is none of these any more" in words_of(again)


def test_a_reason_that_is_refused_settles_nothing_and_is_shown(
    server: SampleServer, client: BrowserClient
) -> None:
    (conflict,) = server.gateway.home.conflicts(scope=ADA)
    answer = client.post(
        "/console/conflicts", settle=f"{conflict.conflict_id} neither", reason=f"her key is {SECRET}"
    )

    assert (answer.status_code, "Contains a secret" in words_of(answer)) == (422, True)
    assert server.gateway.home.conflicts(scope=ADA) == [conflict]


def test_only_operators_settle(server: SampleServer) -> None:
    (conflict,) = server.gateway.home.conflicts(scope=ADA)
    choice = f"{conflict.conflict_id} neither"
    for key in (server.auditor, server.agent):
        with browser_client(server, key) as reader:
            page = words_of(reader.get("/console/conflicts"))
            answer = reader.post("/console/conflicts", settle=choice, reason="why not")

            assert "Ada lives in Bergen." in page
            assert "Keep this" not in page
            assert answer.status_code == 403
    assert len(server.gateway.home.conflicts(scope=ADA)) == 1


def test_a_proposed_settlement_is_accepted_on_its_page(server: SampleServer, client: BrowserClient) -> None:
    memory = server.gateway.home
    (proposed,) = memory.settle_all(reason="the newest holds", by="a model", scope=ADA, propose=True)
    assert proposed.remembered is not None
    named = proposed.remembered.proposal_id or ""
    page = client.get(f"/console/proposal?id={named}")
    statements = [str(one["value"]) for _, one in elements_of(page) if one.get("name") == "statement"]
    accept = next(one for one in statements if '"decision":"accept"' in one)
    signature = sign(openssh.private_key("alice"), accept.encode(), "standfast-seal")
    waiting = memory.conflicts(scope=ADA)
    answer = client.post("/console/proposal", id=named, statement=accept, signature=signature)

    assert "the newest holds" in words_of(page)
    assert [one.conflict_id for one in waiting] == [proposed.conflict_id]
    assert answer.status_code == 303
    assert memory.conflicts(scope=ADA) == []
    assert "Ada lives in Bergen." not in memory.profile(ADA).text
