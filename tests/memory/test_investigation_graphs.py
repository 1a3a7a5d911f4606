"""The whole graph of an investigation: every node with its side, certainty and distance, and every link."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import NotFound
from standfast.memory import Investigation, Memory
from standfast.memory import investigating as investigating_module
from standfast.records.incident_requests import InvestigateRequest
from standfast.records.vocabulary import ActionType
from standfast.store.commit import Commit, Write

HANDBOOK = {"kind": "doc", "id": "handbook"}
CRM = {"kind": "doc", "id": "crm"}


class Story:
    """A tool's claim replaces a handbook's rule; records cite it, runs read it; then it is put right."""

    def __init__(self, place: Path) -> None:
        self.memory = Memory.open(str(place), recall_log=True, clock=ManualClock(), ids=CountedIds())
        self.packages: dict[str, str] = {}
        self._write("a", "EU refunds take 14 days.", "policy", source=HANDBOOK)
        self._write("b", "EU refunds take 90 days.", "policy", source=CRM)
        self._write("c", "EU customers wait three months.", "wait", cites="policy")
        self._write("d", "Tell EU customers about the wait.", "tell", cites="wait")
        self._write("e", "The ticket was answered.", "ticket", asks="EU refunds")
        self._write("f", "The office has a garden.", "garden", asks="ticket answered", scope="office")
        self._write("g", "EU refunds take 14 days, as always.", "policy", source=HANDBOOK)

    def _write(
        self,
        run_id: str,
        text: str,
        subject: str,
        *,
        source: dict[str, str] | None = None,
        cites: str = "",
        asks: str = "",
        scope: str = "shared",
    ) -> None:
        run = self.memory.run(workflow="w", mode="buffered_write", run_id=run_id, agent=f"agent-{run_id}")
        with run:
            if asks:
                package = run.recall(asks, tokens=400, max_items=1)
                self.packages[package.package_hash] = f"to-{run_id}"
            refs = [{"kind": "memory", "id": cites}] if cites else []
            run.remember(text, subject=subject, source=source, refs=refs, scope=scope)

    def graph(self, found: Investigation) -> str:
        """The graph, with short names for packages."""
        lines = [
            f"{node.side} {node.steps} {'certain' if node.is_certain else 'possible'}: {node.node_id}"
            f"{f' ({node.state})' if node.state else ''}{' as replacement' if node.is_replacement else ''}"
            for node in found.nodes
        ]
        lines += [f"{one.from_id} -> {one.to_id}: {one.kind}" for one in found.links]
        text = "\n".join(lines)
        for package_hash, name in self.packages.items():
            text = text.replace(package_hash, name)
        return text.replace("record:shared//", "")


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "a.db")


BY_SOURCE = """\
start 0 certain: policy@2 (replaced)
cause 1 certain: run:b
cause 1 certain: source:doc:crm
reach 1 certain: package:to-e
reach 1 certain: policy@7 (current) as replacement
reach 1 certain: wait@3 (current)
reach 2 certain: tell@4 (current)
reach 2 certain: run:e
reach 2 possible: package:to-f
reach 2 possible: ticket@5 (current)
reach 3 possible: record:office//garden@6 (current)
reach 3 possible: run:f
package:to-e -> run:e: handed to
package:to-f -> run:f: handed to
policy@2 -> package:to-e: shown in
policy@2 -> policy@7: replaced by
policy@2 -> wait@3: cited by
ticket@5 -> package:to-f: shown in
wait@3 -> tell@4: cited by
run:b -> policy@2: wrote
run:e -> ticket@5: written after
run:f -> record:office//garden@6: written after
source:doc:crm -> policy@2: said"""

BY_RECORD = """\
start 0 certain: ticket@5 (current)
cause 1 certain: run:e
cause 1 certain: source:agent:agent-e
cause 1 possible: package:to-e
cause 2 possible: policy@2 (replaced)
cause 2 possible: run:b
cause 2 possible: source:doc:crm
reach 1 certain: package:to-f
reach 2 certain: run:f
reach 2 possible: record:office//garden@6 (current)
package:to-e -> run:e: handed to
package:to-f -> run:f: handed to
policy@2 -> package:to-e: shown in
ticket@5 -> package:to-f: shown in
run:b -> policy@2: wrote
run:e -> ticket@5: written after
run:e -> ticket@5: wrote
run:f -> record:office//garden@6: written after
source:agent:agent-e -> ticket@5: said
source:doc:crm -> policy@2: said"""

BY_RUN = """\
start 0 certain: run:e
cause 1 certain: package:to-e
cause 1 certain: run:b
cause 1 certain: source:agent:agent-e
cause 1 certain: source:doc:crm
cause 2 certain: policy@2 (replaced)
reach 1 certain: package:to-f
reach 1 certain: ticket@5 (current)
reach 2 certain: run:f
reach 2 possible: record:office//garden@6 (current)
package:to-e -> run:e: handed to
package:to-f -> run:f: handed to
policy@2 -> package:to-e: shown in
ticket@5 -> package:to-f: shown in
run:b -> policy@2: wrote
run:e -> ticket@5: written after
run:e -> ticket@5: wrote
run:f -> record:office//garden@6: written after
source:agent:agent-e -> ticket@5: said
source:doc:crm -> policy@2: said"""

BY_PACKAGE = """\
start 0 certain: package:to-e
cause 1 certain: policy@2 (replaced)
cause 1 certain: run:b
cause 1 certain: source:doc:crm
reach 1 certain: run:e
reach 1 possible: package:to-f
reach 1 possible: ticket@5 (current)
reach 2 possible: record:office//garden@6 (current)
reach 2 possible: run:f
package:to-e -> run:e: handed to
package:to-f -> run:f: handed to
policy@2 -> package:to-e: shown in
ticket@5 -> package:to-f: shown in
run:b -> policy@2: wrote
run:e -> ticket@5: written after
run:f -> record:office//garden@6: written after
source:doc:crm -> policy@2: said"""

BY_CITATIONS = """\
start 0 certain: tell@4 (current)
cause 1 certain: wait@3 (current)
cause 1 certain: run:d
cause 1 certain: source:agent:agent-d
cause 2 certain: policy@2 (replaced)
cause 2 certain: run:c
cause 2 certain: source:agent:agent-c
cause 3 certain: run:b
cause 3 certain: source:doc:crm
policy@2 -> wait@3: cited by
wait@3 -> tell@4: cited by
run:b -> policy@2: wrote
run:c -> wait@3: wrote
run:d -> tell@4: wrote
source:agent:agent-c -> wait@3: said
source:agent:agent-d -> tell@4: said
source:doc:crm -> policy@2: said"""


def test_the_graph_of_an_investigation_is_whole_whatever_it_starts_with(story: Story) -> None:
    (package_hash,) = [one for one, name in story.packages.items() if name == "to-e"]
    asked: list[tuple[dict[str, Any], str]] = [
        ({"source": CRM}, BY_SOURCE),
        ({"memory_id": "ticket"}, BY_RECORD),
        ({"run_id": "e"}, BY_RUN),
        ({"package_hash": package_hash}, BY_PACKAGE),
        ({"memory_id": "tell"}, BY_CITATIONS),
    ]

    assert [story.graph(story.memory.investigate(**fields)) for fields, _ in asked] == [
        graph for _, graph in asked
    ]


def seen(
    story: Story, sees: Callable[[str], bool], *, shows_quarantined: bool = True, **fields: Any
) -> Investigation:
    """What a caller sees who may not see everything."""
    return story.memory.incidents.answer(
        InvestigateRequest(**fields), sees=sees, shows_quarantined=shows_quarantined
    )


def test_what_a_caller_may_not_see_is_in_no_graph(story: Story) -> None:
    in_office = seen(story, lambda scope: scope == "office", source=CRM)
    shared = seen(story, lambda scope: scope == "shared", memory_id="ticket")

    assert in_office.nodes == ()
    assert "garden" not in story.graph(shared)
    assert "run:f" in story.graph(shared)
    asked = {"memory_id": "ticket", "run_id": "e", "package_hash": next(iter(story.packages))}
    for name, value in asked.items():
        fields: dict[str, Any] = {name: value}
        with pytest.raises(NotFound):
            seen(story, lambda scope: scope == "office", **fields)


def test_nodes_say_what_became_of_a_record_and_hide_its_text_where_they_must(story: Story) -> None:
    memory = story.memory
    memory.quarantine(run_id="c", descendants=False, reason="incident 4")
    memory.forget("ticket", reason="asked to")
    nodes = {one.node_id: one for one in memory.investigate(source=CRM).nodes}
    wait = nodes["record:shared//wait@3"]
    hidden = seen(story, lambda _: True, shows_quarantined=False, source=CRM)

    assert (wait.state, wait.text) == ("in quarantine", "EU customers wait three months.")
    assert {one.text for one in hidden.nodes if one.node_id == wait.node_id} == {""}
    assert {one.text for one in hidden.nodes if one.memory_id == "tell"} == {
        "Tell EU customers about the wait."
    }
    start = nodes["record:shared//policy@2"]
    assert (start.label, start.source, start.origin, start.verdict) == (
        "policy in shared",
        "doc:crm",
        "ordinary",
        "SEAL",
    )
    assert (start.run_id, start.caller, start.snapshot, start.memory_id) == ("b", "agent-b", 2, "policy")
    assert start.evidence_hash
    assert nodes["record:shared//policy@7"].label == "policy in shared, which replaced it"
    package = next(one for one in nodes.values() if one.kind == "package")
    assert (package.scope, package.run_id, package.caller, package.snapshot) == ("shared", "e", "agent-e", 4)


def test_a_graph_has_at_most_so_many_nodes_and_says_how_many_are_left_out(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = story.memory.investigate(source=CRM)
    monkeypatch.setattr(investigating_module, "MAX_INVESTIGATION_NODES", 4)
    cut = story.memory.investigate(source=CRM)

    assert (len(whole.nodes), whole.left_out) == (12, 0)
    assert len(cut.nodes) == 4
    assert cut.left_out > 0
    assert {
        (one.from_id in found, one.to_id in found)
        for one in cut.links
        for found in [{n.node_id for n in cut.nodes}]
    } == {(True, True)}


def test_a_time_range_leaves_out_versions_that_were_written_outside_of_it(story: Story) -> None:
    memory = story.memory
    now = memory.store.clock.now()

    assert len(memory.investigate("policy").start) == 3
    assert [one.snapshot for one in memory.investigate("policy", since=now).start] == [1, 2, 7]
    with pytest.raises(NotFound):
        memory.investigate("policy", until=now)


def test_a_run_before_the_snapshot_that_is_looked_at_wrote_nothing_later(story: Story) -> None:
    now, then = story.memory.incidents._lineage(), story.memory.incidents._lineage(at=4)

    assert [one.place.snapshot for one in now.written_in(["e"])["e"]] == [5]
    assert then.written_in(["e", "d"]).keys() == {"e", "d"}
    assert then.written_in(["e"])["e"] == []
    assert [one.place.snapshot for one in then.written_in(["d"])["d"]] == [4]


def test_a_package_of_working_memory_shows_the_record_that_it_repeats(story: Story) -> None:
    with story.memory.run(workflow="w", mode="buffered_write", run_id="h", scope="office") as run:
        package = run.recall("garden", tokens=400, bands=["ACTIVE"])
        run.remember("The garden is closed.", subject="closed")
    story.packages[package.package_hash] = "to-h"

    assert [item.memory_id for item in package.items] == ["garden"]
    assert "record:office//garden@6 -> package:to-h: shown in" in story.graph(
        story.memory.investigate("garden", scope="office")
    )
    found = story.graph(story.memory.investigate(package_hash=package.package_hash))
    assert "cause 1 certain: record:office//garden@6 (current)" in found
    assert "reach 1 possible: record:office//closed@8 (current)" in found


def test_a_package_of_working_memory_shows_nothing_that_long_term_memory_no_longer_had(story: Story) -> None:
    store = story.memory.store
    ends = [Write.of("default", "LEDGER/office//garden", ActionType.EXPIRE)]
    store.commit(Commit.of(run_id="i", memory_snapshot_id=store.head(), policy_set_id="p", writes=ends))
    with story.memory.run(workflow="w", mode="buffered_write", run_id="j", scope="office") as run:
        package = run.recall("garden", tokens=400, bands=["ACTIVE"])
        run.remember("The garden is closed.", subject="closed")

    assert [item.memory_id for item in package.items] == ["garden"]
    assert "garden@" not in story.graph(story.memory.investigate(package_hash=package.package_hash))


def test_a_history_says_of_each_version_when_by_which_commit_and_what(story: Story) -> None:
    first, *_ = story.memory.history("policy")
    applied = story.memory.store.commit_of(first.memory_snapshot_id)

    assert (first.memory_snapshot_id, first.commit_id, first.committed_at) == (
        1,
        applied.commit_id,
        applied.committed_at,
    )
    assert first.key in ("ACTIVE/shared//policy", "LEDGER/shared//policy")
    assert (first.action, first.erased_by) == ("WRITE", None)
    assert first.record is not None
    assert first.record.text == "EU refunds take 14 days."
    assert first.fingerprint == story.memory.store.history("default", first.key)[0].fingerprint
