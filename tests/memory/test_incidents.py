"""Investigations, quarantine, release and revert, over every backend."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.errors import InvalidValue, NoSuchSnapshot, NotFound, PayloadMismatch
from standfast.memory import Memory, NodeKind, RecordState, Side
from standfast.memory.quarantine import ActState
from standfast.store.protocol import Version, VersionQuery
from standfast.store.quarantine import QuarantineLookup
from standfast.store.store import Store

NOW = "2026-12-01T00:00:00Z"
HANDBOOK = {"kind": "doc", "id": "handbook#4"}
CRM = {"kind": "doc", "id": "crm"}
CONTROLLERS = ("hybrid-v1", "lexical-v1", "phase6-v1")


def _cites(memory_id: str) -> list[dict[str, str]]:
    return [{"kind": "memory", "id": memory_id}]


def _poisoned(memory: Memory) -> None:
    """A handbook's rule, replaced by what a tool said, which two records rest on."""
    memory.remember("EU refunds take 14 days.", subject="policy/eu", source=HANDBOOK)
    memory.remember("US refunds take 10 days.", subject="policy/us", source=HANDBOOK)
    memory.remember("EU refunds take 90 days.", subject="policy/eu", source=CRM)
    memory.remember("EU customers wait three months.", subject="wait/eu", refs=_cites("policy/eu"))
    memory.remember("Tell EU customers about the wait.", subject="tell/eu", refs=_cites("wait/eu"))


def _ids(memory: Memory, query: str = "EU refunds", *, controller: str = "hybrid-v1") -> set[str]:
    package = memory.recall(query, tokens=900, now_utc=NOW, controller=controller)
    return {item.memory_id for item in package.items}


def _hashes(memory: Memory, queries: Iterable[str] = ("EU refunds", "US refunds", "customers")) -> list[str]:
    return [
        memory.recall(query, tokens=900, now_utc=NOW, controller=controller).package_hash
        for query in queries
        for controller in CONTROLLERS
    ]


def test_quarantine_of_a_source_takes_it_and_what_cites_it_out_of_recall(memory: Memory) -> None:
    _poisoned(memory)

    done = memory.quarantine(source=CRM, reason="incident 4")

    assert (done.records, done.restored) == (3, 1)
    for controller in CONTROLLERS:
        assert _ids(memory, controller=controller) == {"policy/eu", "policy/us"}
    assert "14 days" in memory.recall("EU refunds", tokens=900).text
    assert {record.memory_id: record.text for record in memory.records()} == {
        "policy/eu": "EU refunds take 14 days.",
        "policy/us": "US refunds take 10 days.",
    }
    assert "90" not in memory.profile(scope="shared").text
    assert list(memory.verify()) == []


def test_release_gives_the_packages_of_before_to_the_byte(memory: Memory) -> None:
    _poisoned(memory)
    before = _hashes(memory)
    done = memory.quarantine(source=CRM, reason="incident 4")
    hidden = _hashes(memory)

    memory.release(done.act_id, reason="the source was right")

    assert hidden != before
    assert _hashes(memory) == before
    assert memory.quarantined() == []
    assert list(memory.verify()) == []


def test_time_travel_shows_what_was_shown_then(memory: Memory) -> None:
    _poisoned(memory)
    then, before = memory.store.head(), memory.recall("EU refunds", tokens=900, now_utc=NOW)
    done = memory.quarantine(source=CRM, reason="incident 4")
    during = memory.recall("EU refunds", tokens=900, now_utc=NOW)
    memory.release(done.act_id, reason="it was right")

    assert memory.at(then).recall("EU refunds", tokens=900, now_utc=NOW).package_hash == before.package_hash
    at_quarantine = memory.at(done.memory_snapshot_id).recall("EU refunds", tokens=900, now_utc=NOW)
    assert at_quarantine.package_hash == during.package_hash


def test_what_was_superseded_by_quarantined_content_is_current_again(memory: Memory) -> None:
    first = memory.remember("Ada lives in Bonn.", source={"kind": "user", "id": "ada"})
    memory.remember("Ada lives in Oslo.", source=CRM | {"kind": "user"}, supersedes=[first.memory_id])
    assert first.memory_id not in _ids(memory, "Where does Ada live?")

    memory.quarantine(source=CRM | {"kind": "user"}, reason="incident 4")

    assert _ids(memory, "Where does Ada live?") == {first.memory_id}
    # It is an ordinary record again, which another one can supersede.
    third = memory.remember(
        "Ada lives in Rome.", source={"kind": "user", "id": "ada"}, supersedes=[first.memory_id]
    )
    assert _ids(memory, "Where does Ada live?") == {third.memory_id}
    assert list(memory.verify()) == []


def test_quarantined_content_is_not_known_and_can_be_said_again(memory: Memory) -> None:
    memory.remember("The office is in Cork.", source=CRM)
    memory.quarantine(source=CRM, reason="incident 4")

    again = memory.remember("The office is in Cork.", source=HANDBOOK)

    assert again.known is None
    assert again.accepted
    assert _ids(memory, "Where is the office?") == {again.memory_id}


def test_a_later_text_of_a_quarantined_subject_is_shown(memory: Memory) -> None:
    _poisoned(memory)
    done = memory.quarantine(source=CRM, reason="incident 4")

    memory.remember("EU refunds take 20 days.", subject="policy/eu", source=HANDBOOK)

    assert "20 days" in memory.recall("EU refunds", tokens=900).text
    assert "14 days" not in memory.recall("EU refunds", tokens=900).text
    memory.release(done.act_id, reason="it was right")
    assert "20 days" in memory.recall("EU refunds", tokens=900).text


def test_two_acts_on_one_record_are_released_one_by_one(memory: Memory) -> None:
    _poisoned(memory)
    before = _hashes(memory)
    first = memory.quarantine(source=CRM, reason="incident 4")
    second = memory.quarantine(run_id=_run_of(memory, "wait/eu"), reason="incident 5")

    memory.release(first.act_id, reason="it was right")
    assert "wait/eu" not in _ids(memory)
    memory.release(second.act_id, reason="it was right too")

    assert _hashes(memory) == before


def _run_of(memory: Memory, subject: str) -> str:
    (entry, *_) = memory.history(subject)
    return memory.store.commit_of(entry.memory_snapshot_id).run_id


def test_a_rehearsal_changes_nothing_and_says_the_same(memory: Memory) -> None:
    _poisoned(memory)
    head = memory.store.head()

    plan = memory.quarantine(source=CRM, rehearse=True)
    done = memory.quarantine(source=CRM, reason="incident 4")

    assert done.memory_snapshot_id == head + 1
    assert (plan.records, plan.restored, plan.scopes) == (done.records, done.restored, {"shared": 3})
    assert plan.hidden == ("shared//policy/eu@3", "shared//tell/eu@5", "shared//wait/eu@4")


def test_an_act_id_is_an_idempotency_key(memory: Memory) -> None:
    _poisoned(memory)

    first = memory.quarantine(source=CRM, reason="incident 4", act_id="incident-4")
    again = memory.quarantine(source=CRM, reason="incident 4", act_id="incident-4")

    assert first.memory_snapshot_id == again.memory_snapshot_id
    assert again.replayed
    with pytest.raises(PayloadMismatch):
        memory.quarantine(source=HANDBOOK, reason="incident 4", act_id="incident-4")


def test_a_quarantine_without_descendants_leaves_what_cites_it(memory: Memory) -> None:
    _poisoned(memory)

    memory.quarantine("policy/eu", reason="incident 4", descendants=False)

    assert {"wait/eu", "tell/eu", "policy/eu"} <= _ids(memory)
    assert "14 days" in memory.recall("EU refunds", tokens=900).text


def test_forget_erases_what_is_in_quarantine_and_shows_none_of_it_meanwhile(memory: Memory) -> None:
    _poisoned(memory)
    memory.quarantine(source=CRM, reason="incident 4")

    memory.forget(scope="shared", reason="erasure request 17")

    assert memory.quarantined() == []
    assert list(memory.records()) == []
    assert list(memory.verify()) == []


def test_revert_of_the_newest_run_gives_the_packages_of_before_it(memory: Memory) -> None:
    _poisoned(memory)
    before = _hashes(memory)
    with memory.run(workflow="triage", mode="buffered_write") as run:
        run.remember("EU refunds take 1 day.", subject="policy/eu", source=HANDBOOK)
        run.remember("Refunds are never paid.", supersedes=["policy/us"])
    assert _hashes(memory) != before

    done = memory.revert(run_id=run.identity.run_id, reason="wrong ticket")

    assert _hashes(memory) == before
    assert (done.records, done.restored, done.conflicts) == (2, 2, ())
    assert list(memory.verify()) == []


def test_revert_keeps_what_others_changed_since(memory: Memory) -> None:
    _poisoned(memory)
    with memory.run(workflow="triage", mode="buffered_write") as run:
        run.remember("EU refunds take 1 day.", subject="policy/eu", source=HANDBOOK)
        run.remember("US refunds take 1 day.", subject="policy/us", source=HANDBOOK)
    memory.remember("EU refunds take 21 days.", subject="policy/eu", source=HANDBOOK)

    done = memory.revert(run_id=run.identity.run_id, reason="wrong ticket")

    texts = {record.memory_id: record.text for record in memory.records()}
    assert texts["policy/eu"] == "EU refunds take 21 days."
    assert texts["policy/us"] == "US refunds take 10 days."
    assert [conflict.memory_id for conflict in done.conflicts] == ["policy/eu"]


def test_revert_since_a_snapshot_undoes_what_a_source_said_since(memory: Memory) -> None:
    _poisoned(memory)
    before = _hashes(memory)
    head = memory.store.head()
    memory.remember("UK refunds take 7 days.", source=CRM)
    memory.remember("CH refunds take 8 days.", source=HANDBOOK)

    memory.revert(since_snapshot=head, source=CRM, reason="incident 4")

    assert "UK" not in memory.recall("refunds", tokens=900).text
    assert "CH" in memory.recall("refunds", tokens=900).text
    memory.revert(since_snapshot=head, reason="all of it")
    assert _hashes(memory) == before


def test_an_investigation_tells_certain_from_possible(store: Store) -> None:
    memory = Memory(store)
    _poisoned(memory)
    with memory.run(workflow="triage", mode="buffered_write") as run:
        run.recall("EU refunds", tokens=900)
        run.remember("Ticket 7 was answered.", subject="ticket/7")

    found = memory.investigate(source=CRM)

    assert [(node.memory_id, node.state) for node in found.start] == [("policy/eu", RecordState.CURRENT)]
    assert {node.memory_id for node in found.certain} == {"wait/eu", "tell/eu"}
    assert found.records_by_scope == {"shared": len(found.certain) + len(found.possible)}
    assert "doc:crm" in {node.label for node in found.of(NodeKind.SOURCE, Side.CAUSE)}
    assert "policy/eu in shared" in found.text()
    assert found.dot().startswith("digraph investigation {")
    assert type(found).from_json(found.as_json()) == found


def test_what_replaced_a_record_is_named_and_does_not_rest_on_it(memory: Memory) -> None:
    _poisoned(memory)
    memory.remember("EU refunds take 14 days, as always.", subject="policy/eu", source=HANDBOOK)

    found = memory.investigate(source=CRM)
    memory.quarantine(source=CRM, reason="incident 4")

    (replacement,) = [node for node in found.reach if node.is_replacement]
    assert replacement.memory_id == "policy/eu"
    assert replacement not in found.certain
    assert "as always" in memory.recall("EU refunds", tokens=900).text


def test_a_citation_means_the_version_that_was_shown_then(memory: Memory) -> None:
    memory.remember("EU refunds take 14 days.", subject="policy/eu", source=HANDBOOK)
    memory.remember("EU customers wait two weeks.", subject="wait/eu", refs=_cites("policy/eu"))
    memory.remember("EU refunds take 90 days.", subject="policy/eu", source=CRM)

    found = memory.investigate(source=CRM)
    memory.quarantine(source=CRM, reason="incident 4")

    assert found.certain == []
    assert "wait/eu" in _ids(memory)


@pytest.mark.parametrize(
    ("said", "rests_on_it"),
    [
        ([["crm"], ["cites"]], ["wait/eu"]),
        ([["crm"], ["cites"], ["handbook"]], ["wait/eu"]),
        ([["crm"], ["handbook"], ["cites"]], []),
        ([["crm", "cites"]], ["wait/eu"]),
        ([["cites"], ["crm"]], []),
        ([["crm"], ["corrects"]], ["policy/eu"]),
        ([["handbook"], ["crm"], ["corrects"]], ["policy/eu"]),
        ([["crm"], ["handbook"], ["corrects"]], []),
    ],
)
def test_a_citation_means_the_text_before_it_or_of_its_commit(
    memory: Memory, said: list[list[str]], rests_on_it: list[str]
) -> None:
    for step in said:
        with memory.run(workflow="w", mode="buffered_write") as run:
            for what in step:
                if what == "crm":
                    run.remember("EU refunds take 90 days.", subject="policy/eu", source=CRM)
                elif what == "handbook":
                    run.remember("EU refunds take 14 days.", subject="policy/eu", source=HANDBOOK)
                elif what == "cites":
                    run.remember("EU customers wait.", subject="wait/eu", refs=_cites("policy/eu"))
                else:
                    run.remember("EU refunds take a week.", subject="policy/eu", refs=_cites("policy/eu"))

    assert [node.memory_id for node in memory.investigate(source=CRM).certain] == rests_on_it


def test_the_recall_log_leads_from_a_package_to_its_source(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "a.db"), recall_log=True) as memory:
        _poisoned(memory)
        with memory.run(workflow="triage", mode="buffered_write", agent="bot") as run:
            package = run.recall("EU refunds", tokens=900)
            run.remember("Ticket 7 was answered.", subject="ticket/7")

    with Memory.open(str(tmp_path / "a.db"), recall_log=True) as memory:
        found = memory.investigate(package_hash=package.package_hash)
        reach = memory.investigate("policy/eu")

    (start,) = found.start
    assert (start.caller, start.run_id) == ("bot", run.identity.run_id)
    assert {"doc:crm", "doc:handbook#4"} <= {node.label for node in found.of(NodeKind.SOURCE, Side.CAUSE)}
    assert [node.memory_id for node in found.possible] == ["ticket/7"]
    assert "ticket/7" in {node.memory_id for node in reach.possible}
    assert {node.run_id for node in reach.of(NodeKind.RUN, Side.REACH)} == {run.identity.run_id}
    assert found.notes == ()


def test_the_recall_log_holds_no_content(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "a.db"), recall_log=True) as memory:
        memory.remember("The password of the safe is in the drawer.", subject="safe", scope="user/ada")
        memory.recall("safe drawer", scope="user/ada", tokens=500)

    (log,) = (tmp_path / "a.db-files" / "recalls").glob("*.jsonl")
    assert b"drawer" not in log.read_bytes()
    assert b"user/ada//safe" in log.read_bytes()


def test_forget_reaches_the_recall_log(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "a.db"), recall_log=True) as memory:
        for name in ("ada", "bob", "cid"):
            memory.remember(f"The safe of {name} is blue.", subject="safe", scope=f"user/{name}")
            memory.recall("safe", scope=f"user/{name}", tokens=500)
        memory.forget(scope="user/ada", reason="erasure request 17")
        memory.forget("safe", scope="user/bob", reason="erasure request 18")
    (log,) = (tmp_path / "a.db-files" / "recalls").glob("*.jsonl")

    assert b"user/ada" not in log.read_bytes()
    assert b"user/bob//safe" not in log.read_bytes()
    assert b"user/cid//safe" in log.read_bytes()


def test_an_act_that_was_not_finished_is_finished_by_the_next_process(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.memory.quarantine.QUARANTINED_ROWS_PER_COMMIT", 2)
    for number in range(7):
        memory.remember(f"Rumour number {number}.", subject=f"rumour/{number}", source=CRM)
    before = _hashes(memory, ("rumour",))
    commit = memory.store.commit
    calls: list[int] = []

    def killed(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return commit(*args, **kwargs)  # type: ignore[arg-type]  # Handed through.

    monkeypatch.setattr(memory.store, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        memory.quarantine(source=CRM, reason="incident 4", act_id="a")
    monkeypatch.setattr(memory.store, "commit", commit)
    assert [act.state for act in memory.quarantines()] == [ActState.HIDING]

    done = memory.quarantine(source=CRM, reason="incident 4", act_id="a")

    assert (done.records, done.commits) == (7, 4)
    assert _ids(memory, "rumour") == set()
    memory.release("a", reason="they were true")
    assert _hashes(memory, ("rumour",)) == before


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"source": CRM, "run_id": "r"},
        {"source": {"kind": "doc"}},
        {"memory_id": ""},
        {"source": CRM, "since": "yesterday"},
    ],
)
def test_a_request_that_names_nothing_or_too_much_is_refused(
    memory: Memory, named: dict[str, object]
) -> None:
    with pytest.raises(InvalidValue):
        memory.investigate(**named)  # type: ignore[arg-type]  # On purpose.
    with pytest.raises(InvalidValue):
        memory.quarantine(reason="incident 4", **named)  # type: ignore[call-overload]  # On purpose.


def test_what_is_not_there_is_a_typed_error(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.investigate("nothing")
    with pytest.raises(NotFound):
        memory.investigate(package_hash="0" * 64)
    with pytest.raises(NotFound):
        memory.investigate(run_id="none")
    with pytest.raises(NotFound):
        memory.release("none", reason="it was right")
    with pytest.raises(NotFound):
        memory.revert(run_id="none", reason="wrong ticket")
    with pytest.raises(InvalidValue):
        memory.quarantine("nothing", reason="incident 4")
    with pytest.raises(InvalidValue):
        memory.quarantine(source=CRM, reason=" ")


def test_what_is_out_of_bounds_is_a_typed_error(memory: Memory) -> None:
    memory.remember("The rumour is true.", subject="rumour", source=CRM)
    long, act = "x" * 50_000, "incident 4"
    late, early = "2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"

    for what, refused in {
        "by": lambda: memory.quarantine(source=CRM, reason=act, by=long),
        "by is": lambda: memory.quarantine(source=CRM, reason=act, by=""),
        "until": lambda: memory.quarantine(source=CRM, reason=act, since=late, until=early),
        "until is": lambda: memory.investigate(source=CRM, since=late, until=early),
        "reason": lambda: memory.quarantine(source=CRM, reason=long),
        "reason is": lambda: memory.release("a", reason=long),
        "by is invalid": lambda: memory.release("a", reason=act, by=long),
        "limit": lambda: memory.quarantined(limit=-1),
        "limit is": lambda: memory.quarantined(limit=0),
    }.items():
        with pytest.raises(InvalidValue, match=f"^{what}"):
            refused()  # type: ignore[no-untyped-call]  # Each is a lambda.
    with pytest.raises(NoSuchSnapshot):
        memory.revert(since_snapshot=memory.store.head() + 1, reason=act)

    assert memory.quarantines() == []
    assert memory.revert(since_snapshot=memory.store.head(), reason=act).records == 0


def test_a_run_of_another_namespace_is_as_if_it_never_was(store: Store) -> None:
    memory, other = Memory(store), Memory(store, namespace="other")
    said = other.remember("The rumour is true.", subject="rumour", source=CRM)
    assert said.receipt is not None
    run_id = _run_of(other, "rumour")

    for verb in (memory.quarantine, memory.revert):
        with pytest.raises(NotFound):
            verb(run_id=run_id, reason="incident 4")
    with pytest.raises(NotFound):
        memory.investigate(run_id=run_id)
    assert memory.quarantine(source=CRM, reason="incident 4").records == 0
    assert len(list(other.records())) == 1


def _kill_after_a_page(memory: Memory, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> None:
    """Begin the act "a" with pages of two rows, and die after the first page."""
    monkeypatch.setattr("standfast.memory.quarantine.QUARANTINED_ROWS_PER_COMMIT", 2)
    commit, calls = memory.store.commit, list[int]()

    def killed(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return commit(*args, **kwargs)  # type: ignore[arg-type]  # Handed through.

    with monkeypatch.context() as dying:
        dying.setattr(memory.store, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            memory.quarantine(act_id="a", **asked)
    monkeypatch.setattr("standfast.memory.quarantine.LEASE_SECONDS", -1)
    monkeypatch.setattr("standfast.memory.quarantine.MAX_CLOCK_SKEW_SECONDS", 0)
    assert [act.state for act in memory.quarantines()] == [ActState.HIDING]


def test_an_act_is_finished_though_what_it_names_was_forgotten_meanwhile(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("The rumour is true.", subject="rumour", source=CRM)
    for number in range(5):
        memory.remember(f"Conclusion {number}.", subject=f"end/{number}", refs=_cites("rumour"))
    _kill_after_a_page(memory, monkeypatch, memory_id="rumour", reason="incident 4")
    memory.forget("rumour", reason="asked to")

    memory.finish_forgetting()

    assert [act.state for act in memory.quarantines()] == [ActState.IN_FORCE]
    assert list(memory.records()) == []
    memory.release("a", reason="it was right")
    assert len(list(memory.records())) == 5
    assert list(memory.verify()) == []


def test_an_act_is_finished_though_redaction_made_its_reason_longer(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        memory.remember(f"Rumour number {number}.", subject=f"rumour/{number}", source=CRM)
    reason = ("password=hunter22x! " * 14)[:256]
    _kill_after_a_page(memory, monkeypatch, source=CRM, reason=reason)

    memory.finish_forgetting()

    (act,) = memory.quarantines()
    assert (act.state, len(act.reason) > 256) == (ActState.IN_FORCE, True)
    assert list(memory.records()) == []


def test_revert_does_not_bring_back_what_a_kept_record_had_superseded(memory: Memory) -> None:
    ada = {"kind": "user", "id": "ada"}
    # The row that says that the first one ended comes before that of the second one.
    memory.remember("Ada lives in Bonn.", subject="home/1", source=ada)
    memory.remember("Ada lives in Oslo.", subject="home/2", source=ada, supersedes=["home/1"])
    memory.remember("Ada lives in Rome.", source=ada, supersedes=["home/2"])

    done = memory.revert(run_id=_run_of(memory, "home/2"), reason="wrong ticket")

    assert [one.memory_id for one in done.conflicts] == ["home/2"]
    assert (done.records, done.restored) == (0, 0)
    assert [record.text for record in memory.records()] == ["Ada lives in Rome."]


def test_an_act_id_is_of_one_verb(memory: Memory) -> None:
    _poisoned(memory)
    run_id = _run_of(memory, "wait/eu")
    memory.quarantine(run_id=run_id, reason="incident 4", act_id="a")

    with pytest.raises(PayloadMismatch):
        memory.revert(run_id=run_id, reason="incident 4", act_id="a")


@pytest.mark.parametrize("act_id", ["", "a" * 257])
def test_an_act_id_that_is_empty_or_too_long_is_refused(memory: Memory, act_id: str) -> None:
    with pytest.raises(InvalidValue, match="act_id"):
        memory.quarantine(source=CRM, reason="incident 4", act_id=act_id)


def test_an_act_id_may_be_as_long_as_a_name(memory: Memory) -> None:
    _poisoned(memory)
    before = _hashes(memory)

    done = memory.quarantine(source=CRM, reason="incident 4", act_id="a" * 256)
    memory.release(done.act_id, reason="it was right")

    assert _hashes(memory) == before


def test_a_quarantine_of_a_run_that_never_was_is_refused(memory: Memory) -> None:
    with pytest.raises(NotFound, match="no commit of run 'nope'"):
        memory.quarantine(run_id="nope", reason="incident 4")
    assert memory.quarantines() == []


def test_a_dry_run_of_a_release_names_an_act_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Memory.open("m.db").close()

    told = CliRunner().invoke(main, ["release", "nope", "--reason", "x", "--dry-run", "--store", "m.db"])

    assert told.exit_code == 2
    assert "There is no quarantine 'nope'" in told.output


def test_the_first_look_for_what_is_hidden_does_not_go_through_the_whole_store() -> None:
    """By keys there are few rows; by snapshots, all of them."""
    asked = list[VersionQuery]()

    def read(query: VersionQuery) -> list[Version]:
        asked.append(query)
        return []

    lookup = QuarantineLookup(read)
    for snapshot in (5, 5, 7):
        assert not lookup.at("default", snapshot).versions

    assert [(one.since, one.at) for one in asked] == [(None, 5), (5, 7)]


def test_a_quarantine_by_another_process_holds_though_this_one_commits_next(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "a.db")) as memory, Memory.open(str(tmp_path / "a.db")) as other:
        _poisoned(memory)
        run = memory.run(workflow="w", mode="buffered_write")
        run.remember("Crate 7 stands in the hall.", subject="crate/7", source=HANDBOOK)
        assert "policy/eu" in _ids(memory)
        before = memory.store.head()
        other.quarantine(source=CRM, reason="incident 4")
        run.commit()

        assert memory.store.head() == before + 2
        assert "90 days" not in memory.recall("EU refunds", tokens=900, now_utc=NOW).text
