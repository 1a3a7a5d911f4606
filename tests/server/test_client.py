"""The clients: the verbs and errors of memory, arguments checked before sending, and retries with one
effect.
"""

import asyncio
import inspect
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from standfast.client import (
    AsyncClient,
    AsyncRemoteApprovals,
    AsyncRemoteKeys,
    AsyncRemotePrompts,
    AsyncRemoteRun,
    AsyncRemoteSnapshot,
    AsyncRemoteTraces,
    Client,
    RecallBody,
    RemoteApprovals,
    RemoteKeys,
    RemotePrompts,
    RemoteRun,
    RemoteSnapshot,
    RemoteTraces,
)
from standfast.clock import ManualClock
from standfast.errors import (
    EmptyQuery,
    Forbidden,
    InvalidValue,
    NotAllowed,
    NotFound,
    StandfastError,
    Unauthenticated,
    Unreachable,
)
from standfast.govern.approvals.sshsig import sign
from standfast.memory import Memory
from standfast.records.requests import RememberRequest
from standfast.records.vocabulary import ActionType, Band, Verdict
from tests.govern import openssh
from tests.raising import raises_code
from tests.server.cutting_proxy import CuttingProxy
from tests.server.harness import HANDBOOK, Served


@pytest.fixture
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of the server, in a namespace of the test's own."""
    with Client(served.address, key=served.key, namespace=request.node.name[:100]) as client:
        yield client


def test_the_client_has_the_verbs_of_memory(client: Client) -> None:
    """All but how it is opened, what only other packages of the library call, and what an operator does where
    the store is.
    """
    verbs = {name for name in dir(Memory) if not name.startswith("_")}

    assert {verb for verb in verbs if not hasattr(client, verb)} <= {
        "open",
        "judging_context",
        "corpus",
        "warnings",
        "require_readable",
        "retry",
        "patterns",
        "lift_pattern",
        "refusals",
        "lift_refusal",
        "finish_forgetting",
        "tail",
        "verification",
        "incidents",
    }


def test_a_settlement_is_proposed_and_accepted_over_http(client: Client, served: Served) -> None:
    (served.folder / "allowed_signers").write_text(
        f'alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}\n',
        encoding="utf-8",
    )
    user = {"kind": "user", "id": "ada"}
    client.remember("I live in Munich.", scope="user/ada", source=user, time="2026-01-05")
    client.remember("I moved to Lisbon.", scope="user/ada", source=user, time="2026-03-02")
    (proposed,) = client.settle_all(reason="moved", scope="user/ada", propose=True)
    before = len(client.conflicts(scope="*"))
    assert proposed.remembered is not None
    shown = client.approvals.find(proposed.remembered.proposal_id or "")
    accept = next(one for one in shown.to_sign if one.decision == "accept")
    signature = sign(openssh.private_key("alice"), accept.text.encode(), "standfast-seal")
    client.approvals.decide(accept.statement, signature)

    assert before == 1
    assert client.conflicts(scope="*") == []
    assert "Munich" not in client.recall("Where do I live?", scope="user/ada").text


def test_what_is_current_is_told_and_settled_over_http(client: Client) -> None:
    user = {"kind": "user", "id": "ada"}
    munich = client.remember("I live in Munich.", scope="user/ada", source=user, time="2026-01-05")
    client.remember("I moved to Lisbon.", scope="user/ada", source=user, time="2026-03-02")
    profile = client.profile("user/ada", tokens=200)
    (conflict,) = client.conflicts(scope="*")
    newest = conflict.entries[0].memory_id
    rehearsed = client.settle(conflict.conflict_id, newest, reason="moved", scope="user/ada", rehearse=True)
    (settled,) = client.settle_all(reason="moved", scope="user/ada")

    assert "Lisbon" in profile.text
    assert "Munich" not in profile.text
    assert rehearsed.ended == settled.ended == (munich.memory_id,)
    assert rehearsed.remembered is None
    assert settled.remembered is not None
    assert settled.remembered.accepted
    assert client.conflicts(scope="*") == []
    with pytest.raises(InvalidValue, match="no conflict"):
        client.settle(conflict.conflict_id, newest, reason="moved", scope="user/ada")


def test_a_run_commits_at_the_end_of_its_block(client: Client) -> None:
    with client.run(workflow="triage", mode="buffered_write") as run:
        fact = run.remember("EU refunds take 14 days.", subject="policy/eu-refunds", source=HANDBOOK)
        rumour = run.remember("US refunds take 30 days.", hold="ask Ada")
        assert list(client.records()) == []
    head = client.status().head
    changes = client.diff(head - 1)
    with client.run(workflow="triage", mode="buffered_write") as second:
        second.forget("policy/eu-refunds", reason="asked to")

    assert (fact.verdict, rumour.verdict) == (Verdict.SEAL, Verdict.HOLD)
    assert run.receipt is not None
    assert run.receipt.memory_snapshot_id == head
    with pytest.raises(NotFound):
        client.record("policy/eu-refunds", at=head)
    assert [chapter.action for chapter in client.history("policy/eu-refunds")].count(ActionType.EXPIRE) == 2
    assert {change.key for change in changes} >= {
        "ACTIVE/shared//policy/eu-refunds",
        "LEDGER/shared//policy/eu-refunds",
    }


def test_an_error_in_the_block_discards_the_run(client: Client) -> None:
    def fail() -> None:
        with client.run(workflow="triage", mode="buffered_write") as run:
            run.remember("EU refunds take 14 days.", source=HANDBOOK)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert list(client.records()) == []


def test_records_come_in_pages_from_one_snapshot(client: Client) -> None:
    with client.run(workflow="triage", mode="buffered_write") as run:
        for number in range(110):
            run.remember(
                f"Shelf {number} holds crate {number * 37 + 5}.", subject=f"{number}", source=HANDBOOK
            )

    assert len(list(client.records(band=Band.LEDGER))) == 110
    assert len(list(client.records())) == 110
    chosen = client.records(where={"subject_prefix": "10"})
    assert sorted(one.subject or "" for one in chosen) == ["10", *map(str, range(100, 110))]
    assert list(client.records(where={"tag": "none"})) == []
    with pytest.raises(InvalidValue, match="there is no filter 'colour'"):
        client.records(where={"colour": "red"})  # type: ignore[arg-type]  # No such filter.


def test_errors_are_the_classes_that_they_were(client: Client, served: Served) -> None:
    with pytest.raises(NotFound):
        client.record("nobody")
    with pytest.raises(InvalidValue, match="there is no record 'nobody'"):
        client.remember("Refunds take 14 days.", supersedes="nobody")
    with client.run(workflow="triage") as run, pytest.raises(NotAllowed) as refused:
        run.remember("x")
    assert refused.value.facts == {"mode": "read_only", "operation": "remember"}
    with Client(served.address, key="sf_wrong") as stranger, pytest.raises(Unauthenticated):
        stranger.status()
    with Client(served.address, key=served.key, namespace="standfast") as curious, pytest.raises(Forbidden):
        curious.status()
    with pytest.raises(InvalidValue):
        Client("ftp://example.com", key="x")
    with pytest.raises(InvalidValue):
        Client(served.address, key="line\nbreak")


def test_a_human_decides_through_the_client(client: Client, served: Served) -> None:
    (served.folder / "allowed_signers").write_text(
        f'alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}\n',
        encoding="utf-8",
    )
    made = client.remember("EU refunds take 14 days.", source=HANDBOOK, propose=True)
    (waiting,) = client.approvals.waiting()
    shown = client.approvals.find(made.proposal_id or "")
    approve = shown.to_sign[0]
    signature = sign(openssh.private_key("alice"), approve.text.encode(), "standfast-seal")
    receipt = client.approvals.decide(approve.statement, signature)
    with raises_code("not_pending"):
        client.approvals.decide(approve.statement, signature)

    assert waiting == shown.proposal
    assert client.receipt(receipt.ledger_seq).leaf_index == receipt.ledger_seq - 1
    assert [law.text for law in client.records(band=Band.VAULT)] == ["EU refunds take 14 days."]
    assert [one.proposal_id for one in client.approvals.decided()] == [made.proposal_id]
    assert client.checkpoint()
    assert client.due() == []
    assert client.sweep() == []
    assert next(iter(client.entries())).seq == 1


@contextmanager
def _over_a_bad_line(served: Served, namespace: str, *, cuts: int) -> Iterator[tuple[CuttingProxy, Client]]:
    with (
        CuttingProxy(served.port.number, cuts=cuts) as line,
        Client(
            f"http://127.0.0.1:{line.port}", key=served.key, namespace=namespace, clock=ManualClock()
        ) as client,
    ):
        yield line, client


def test_a_call_that_broke_off_is_sent_again_and_has_one_effect(served: Served) -> None:
    """The line is cut after the server has done the work and before its answer is through, once and twice."""
    with _over_a_bad_line(served, "cut", cuts=2) as (line, client):
        answer = client.remember("EU refunds take 14 days.", subject="policy/eu-refunds", source=HANDBOOK)
        chapters = client.history("policy/eu-refunds")

    assert line.cut == 2
    assert answer.receipt is not None
    assert answer.receipt.replayed
    assert len(chapters) == 2


def test_a_call_of_a_run_that_was_cut_off_takes_effect_once(served: Served) -> None:
    with _over_a_bad_line(served, "cut-run", cuts=0) as (line, client):
        run = client.run(workflow="triage", mode="buffered_write")
        line.cuts = 2
        answer = run.remember("EU refunds take 14 days.", source=HANDBOOK)
        again = run.remember("EU refunds take 14 days.", source=HANDBOOK)
        run.discard()

    assert line.cut == 2
    assert (answer.known, again.known) == (None, answer.memory_id)


def test_what_is_not_safe_to_send_again_is_not(served: Served) -> None:
    with _over_a_bad_line(served, "cut-sweep", cuts=1) as (line, client), pytest.raises(Unreachable):
        client.sweep()

    assert line.cut == 1


def test_a_server_that_is_none_of_ours_is_told_apart() -> None:
    """It answers with a page; or with our words but not our facts."""
    answers = [
        b"<html>hello</html>",
        b'{"code": "not_found", "facts": {}, "detail": "x"}',
        b'{"code": "unheard_of", "facts": {"a": 1}, "detail": "x"}',
        b"[]",
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for body in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    head = (
                        f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    )
                    connection.sendall(head.encode() + body)

        thread = threading.Thread(target=answer)
        thread.start()
        failures: list[str] = []
        with Client(f"http://127.0.0.1:{listener.getsockname()[1]}", key="x", clock=ManualClock()) as client:
            for _ in answers:
                with pytest.raises(StandfastError) as failed:
                    client.status()
                failures.append(failed.value.code)
        thread.join()

    assert failures == ["server_failed"] * 4


def test_nobody_at_the_address_is_told_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match=f"http://127.0.0.1:{port} does not answer"):
        Client(f"http://127.0.0.1:{port}", key="x", clock=ManualClock()).status()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda client: client.remember("x", tags="refunds"),
        lambda client: client.remember("x", source="chat"),
        lambda client: client.remember(""),
        lambda client: client.remember("x", subject=7),
        lambda client: client.remember("x", refs=["page 4"]),
        lambda client: client.remember("x", request_key=""),
        lambda client: client.recall("x", tokens=0),
        lambda client: client.recall("x", max_items=0),
        lambda client: client.recall("", tokens=5),
        lambda client: client.recall("x", tokens=5, at=-1),
        lambda client: client.at(-1).recall("x", tokens=5),
        lambda client: client.forget("", reason="x"),
        lambda client: client.forget("x", reason=""),
        lambda client: client.run(workflow="triage", mode="write"),
        lambda client: client.run(workflow=""),
        lambda client: client.records(band="NOWHERE"),
        lambda client: client.record(""),
        lambda client: client.history(None),
        lambda client: client.diff(-1),
        lambda client: client.receipt(0),
        lambda client: client.bench(budget_bytes="many"),
        lambda client: client.approvals.find(""),
        lambda client: client.traces().get(""),
        lambda client: client.traces().compare("a", ""),
        lambda client: client.prompts().get("", "support"),
    ],
)
def test_wrong_arguments_are_refused_before_a_request_is_sent(wrong: Any) -> None:
    """Nobody listens at the address, so a request would raise ``Unreachable``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}", key="x", clock=ManualClock())

    with pytest.raises((InvalidValue, EmptyQuery)):
        wrong(client)


@pytest.mark.parametrize(
    "options", [{"namespace": ""}, {"timeout_seconds": 0}, {"timeout_seconds": -1.0}, {"key": "é"}]
)
def test_a_client_with_wrong_options_is_not_built(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Client("http://127.0.0.1:1", **{"key": "x"} | options)


@pytest.mark.parametrize("max_connections", [0, -1, True, 2.5])
def test_an_async_client_needs_a_connection(max_connections: Any) -> None:
    with pytest.raises(InvalidValue, match="max_connections"):
        AsyncClient("http://127.0.0.1:1", key="x", max_connections=max_connections)


@pytest.mark.parametrize(
    ("plain", "asynchronous"),
    [
        (Client, AsyncClient),
        (RemoteRun, AsyncRemoteRun),
        (RemoteSnapshot, AsyncRemoteSnapshot),
        (RemoteApprovals, AsyncRemoteApprovals),
        (RemoteTraces, AsyncRemoteTraces),
        (RemoteKeys, AsyncRemoteKeys),
        (RemotePrompts, AsyncRemotePrompts),
    ],
)
def test_the_async_client_has_the_same_verbs_with_the_same_parameters(
    plain: type, asynchronous: type
) -> None:
    verbs = {name for name, value in vars(plain).items() if callable(value) and not name.startswith("_")}

    for verb in verbs:
        assert (
            inspect.signature(getattr(plain, verb)).parameters
            == inspect.signature(getattr(asynchronous, verb)).parameters
        ), verb


def test_an_operator_manages_keys(client: Client, served: Served) -> None:
    made = client.keys().create("desk-bot", namespaces=["desk"], role="agent", days=9)
    listed = [one for one in client.keys().list() if one.key_id == made.key.key_id]
    with Client(served.address, key=made.token, namespace="desk") as bot:
        bot.remember("Ada likes tea.", source=HANDBOOK)
        theirs = bot.namespaces()
        revoked = client.keys().revoke(made.key.key_id)
        with pytest.raises(Unauthenticated):
            bot.status()
    still = [one.key_id for one in client.keys().list()]
    ever = {one.key_id for one in client.keys().list(revoked=True)}

    assert [one.name for one in listed] == ["desk-bot"]
    assert theirs == ["desk"]
    assert "desk" in client.namespaces()
    assert revoked.revoked_at is not None
    assert made.key.key_id not in still
    assert made.key.key_id in ever


def test_batches_are_answered_in_order(client: Client) -> None:
    texts = ["EU refunds take 14 days.", "VAT is 19 %.", "Ada likes tea."]
    batch = [RememberRequest(text=text, source=HANDBOOK) for text in texts]
    made = client.remember_batch(batch, request_key="batch")
    again = client.remember_batch(batch, request_key="batch")
    found = client.recall_batch(
        [RecallBody(query=query, tokens=200) for query in ("tea", "VAT", "refunds", "nothing")]
    )
    with pytest.raises(InvalidValue):
        client.remember_batch([])

    assert made.receipt is not None
    assert again.receipt is not None
    assert again.receipt.replayed
    assert [one.memory_id for one in made.items] == [one.memory_id for one in again.items]
    assert [text in one.text for text, one in zip(reversed(texts), found, strict=False)] == [True, True, True]
    assert {one.memory_snapshot_id for one in found} == {made.receipt.memory_snapshot_id}


def test_the_async_client_reads_and_writes(served: Served) -> None:
    async def use() -> None:
        async with AsyncClient(
            served.address, key=served.key, namespace="async", max_connections=2
        ) as memory:
            async with memory.run(workflow="triage", mode="buffered_write") as run:
                fact = await run.remember("EU refunds take 14 days.", subject="refunds", source=HANDBOOK)
            once, again = [
                await memory.remember("VAT is 19 %.", source=HANDBOOK, request_key="vat") for _ in range(2)
            ]
            recalled, *_ = await asyncio.gather(
                *(memory.recall("How long do refunds take?", tokens=500) for _ in range(5))
            )
            records = [record.memory_id async for record in memory.records(band=Band.LEDGER)]
            earlier = await memory.at(recalled.memory_snapshot_id).recall(
                "How long do refunds take?", tokens=500
            )
            forgotten = await memory.forget("refunds", reason="asked to")
            entries = [entry.seq async for entry in memory.entries()]
            made = await memory.keys().create("bot", namespaces=["async"])
            keys = [key.key_id async for key in memory.keys().list()]
            revoked = await memory.keys().revoke(made.key.key_id)
            namespaces = await memory.namespaces()
            batch = await memory.remember_batch([RememberRequest(text="Ada likes tea.", source=HANDBOOK)])
            (about_tea,) = await memory.recall_batch([RecallBody(query="tea", tokens=100)])

        assert made.key.key_id in keys
        assert revoked.revoked_at is not None
        assert "async" in namespaces
        assert batch.receipt is not None
        assert "tea" in about_tea.text
        assert run.receipt is not None
        assert fact.memory_id == "refunds"
        assert once.receipt is not None
        assert again.receipt is not None
        assert again.receipt.replayed
        assert once.receipt.commit_id == again.receipt.commit_id
        assert "14 days" in recalled.text
        assert earlier.package_hash == recalled.package_hash
        assert sorted(records) == sorted([fact.memory_id, once.memory_id])
        assert forgotten.receipt is not None
        assert entries == list(range(1, len(entries) + 1))
        assert len(entries) > 0

    asyncio.run(use())


def test_an_error_in_the_async_block_discards_the_run(served: Served) -> None:
    opened: list[AsyncRemoteRun] = []

    async def fail(memory: AsyncClient) -> None:
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            opened.append(run)
            await run.remember("EU refunds take 14 days.", source=HANDBOOK)
            raise ZeroDivisionError

    async def use() -> list[str]:
        async with AsyncClient(served.address, key=served.key, namespace="async-discard") as memory:
            with pytest.raises(ZeroDivisionError):
                await fail(memory)
            with pytest.raises(NotFound):
                await opened[0].commit()
            return [record.memory_id async for record in memory.records()]

    assert asyncio.run(use()) == []


def test_closing_a_client_closes_the_connections_of_all_threads(served: Served) -> None:
    client = Client(served.address, key=served.key)
    done, go_on = threading.Event(), threading.Event()
    connections: list[Any] = []

    def call() -> None:
        client.status()
        connections.append(client._calls.transport._connection())
        done.set()
        go_on.wait()

    thread = threading.Thread(target=call)
    thread.start()
    done.wait()
    is_open = connections[0].sock is not None
    client.close()
    go_on.set()
    thread.join()

    assert is_open
    assert connections[0].sock is None
    assert client.status().head >= 0
    client.close()
