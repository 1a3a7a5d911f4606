"""Laws of incidents, over histories of every kind: quarantine and release together change no package, and the
revert of the newest run gives the packages of before it.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.memory.run import Run
from standfast.store.opening import open_store
from tests.memory.test_incidents import CONTROLLERS, NOW

TOWNS = ("Bonn", "Oslo", "Rome")
SCOPES = ("shared", "user/ada")
SUBJECTS = ("home", "office", None)
SOURCES: tuple[dict[str, str] | None, ...] = (
    {"kind": "doc", "id": "crm"},
    {"kind": "doc", "id": "handbook#4"},
    {"kind": "user", "id": "ada"},
    {"kind": "web", "id": "https://example.com/a"},
    None,
)
ACTED_ON = tuple(one for one in SOURCES if one is not None)

_index = some.integers(0, 30)
_facts = some.fixed_dictionaries(
    {
        "town": some.sampled_from(TOWNS),
        "subject": some.sampled_from(SUBJECTS),
        "scope": some.sampled_from(SCOPES),
        "source": some.sampled_from(SOURCES),
        "supersedes": some.none() | _index,
        "cites": some.none() | _index,
        "pin": some.booleans(),
    }
)
_steps = some.one_of(
    some.tuples(some.just("fact"), _facts),
    some.tuples(some.just("run"), some.lists(_facts, min_size=1, max_size=3)),
    some.tuples(some.just("said"), some.tuples(some.sampled_from(SCOPES), some.sampled_from(TOWNS))),
    some.tuples(some.just("forget"), _index),
    some.tuples(some.just("quarantine"), some.sampled_from(ACTED_ON)),
)
_histories = some.lists(_steps, min_size=1, max_size=9)
_acts: some.SearchStrategy[tuple[str, Any]] = some.one_of(
    some.tuples(some.just("source"), some.sampled_from(ACTED_ON)),
    some.tuples(some.just("run_id"), _index),
    some.tuples(some.just("memory_id"), _index),
    some.tuples(some.just("since_snapshot"), _index),
)
_examples = settings(max_examples=settings().max_examples // 2)


class History:
    """A memory, and the ids of what was said in it, by scope."""

    def __init__(self) -> None:
        store = open_store(":memory:", create=True, clock=ManualClock(), ids=CountedIds())
        self.memory = Memory(store)
        self.ids: dict[str, list[str]] = {scope: [] for scope in SCOPES}

    def play(self, steps: list[tuple[str, Any]]) -> None:
        """Do some steps, one after the other."""
        for kind, what in steps:
            match kind:
                case "fact":
                    self.remember(self.memory.remember, what)
                case "run":
                    self.run(what)
                case "said":
                    scope, town = what
                    message = {"role": "user", "content": f"I went to {town} today."}
                    self.memory.add([message], scope=scope, session="talk")
                case "forget":
                    scope, memory_id = self.chosen(what)
                    self.memory.forget(memory_id, scope=scope, reason="asked to")
                case "quarantine":
                    self.memory.quarantine(source=what, reason="incident 1")

    def run(self, facts: list[dict[str, Any]]) -> Run:
        """Let a run recall, and then say some facts."""
        with self.memory.run(workflow="work", mode="buffered_write", agent="bot") as run:
            run.recall("Where is it?", scopes=list(SCOPES))
            for fact in facts:
                self.remember(run.remember, fact)
        return run

    def remember(self, remember: Callable[..., Any], fact: dict[str, Any]) -> None:
        """Say a fact, by the verb of a memory or of a run."""
        scope = fact["scope"]
        ids = self.ids[scope]

        def named(index: int | None) -> list[str]:
            return [ids[index % len(ids)]] if ids and index is not None else []

        fields = {
            "subject": fact["subject"],
            "scope": scope,
            "source": fact["source"],
            "supersedes": named(fact["supersedes"]),
            "refs": [{"kind": "memory", "id": one} for one in named(fact["cites"])],
            "pin": fact["pin"] and (fact["source"] or {}).get("kind") == "user",
        }
        try:
            answer = remember(f"It is in {fact['town']}.", **fields)
        except InvalidValue:
            # What was forgotten, has ended or is trusted more can't be superseded.
            return
        if answer.accepted and answer.memory_id not in ids:
            ids.append(answer.memory_id)

    def chosen(self, index: int) -> tuple[str, str]:
        """Scope and id of something that was said."""
        known = [(scope, one) for scope in SCOPES for one in self.ids[scope]]
        return known[index % len(known)] if known else ("shared", "nothing")

    def packages(self) -> list[str]:
        """The hashes of packages of every controller, profiles, and what is listed."""
        hashes = [
            self.memory.recall("Where is it?", scope=scope, now_utc=NOW, controller=controller).package_hash
            for scope in SCOPES
            for controller in CONTROLLERS
        ]
        listed = [record.as_json() for record in self.memory.records()]
        talk = [str(one) for one in self.memory.session("talk", scope="user/ada")]
        return [*hashes, str(listed), *talk, *(_profiled(self.memory, one) for one in SCOPES)]

    def act(self, kind: str, what: Any) -> str | None:
        """Carry out an act; None if there is nothing to act on."""
        match kind:
            case "source":
                return self.memory.quarantine(source=what, reason="incident 4").act_id
            case "run_id":
                # The last commit of an erasure writes nothing of the namespace.
                store, own = self.memory.store, self.memory.namespace
                commits = [
                    one
                    for one in store.commits()
                    if any(row.namespace == own for row in store.versions_of(one.memory_snapshot_id))
                ]
                run_id = commits[what % len(commits)].run_id if commits else "none"
                return self.memory.quarantine(run_id=run_id, reason="incident 4").act_id if commits else None
            case "memory_id":
                scope, memory_id = self.chosen(what)
                present = {one.memory_id for one in self.memory.records(scope=scope)}
                if memory_id not in present:
                    return None
                return self.memory.quarantine(memory_id, scope=scope, reason="incident 4").act_id
            case _:
                since = what % (self.memory.store.head() + 1)
                return self.memory.revert(since_snapshot=since, reason="incident 4").act_id


def _profiled(memory: Memory, scope: str) -> str:
    return str([(item.memory_id, item.excerpt) for item in memory.profile(scope=scope).items])


@_examples
@given(steps=_histories, acts=some.lists(_acts, min_size=1, max_size=2))
def test_quarantine_and_release_together_change_no_package(
    steps: list[tuple[str, Any]], acts: list[tuple[str, Any]]
) -> None:
    history = History()
    history.play(steps)
    before = history.packages()

    done = [act_id for kind, what in acts if (act_id := history.act(kind, what)) is not None]
    for act_id in reversed(done):
        history.memory.release(act_id, reason="it was right")

    assert history.packages() == before
    assert list(history.memory.verify()) == []


@_examples
@given(steps=_histories, newest=some.lists(_facts, min_size=1, max_size=3))
def test_the_revert_of_the_newest_run_gives_the_packages_of_before_it(
    steps: list[tuple[str, Any]], newest: list[dict[str, Any]]
) -> None:
    history = History()
    history.play(steps)
    before = history.packages()
    run = history.run(newest)

    if history.memory.store.commits(run_ids=[run.identity.run_id]):
        done = history.memory.revert(run_id=run.identity.run_id, reason="wrong ticket")
        assert done.conflicts == ()

    assert history.packages() == before
    assert list(history.memory.verify()) == []


@_examples
@given(steps=_histories, source=some.sampled_from(ACTED_ON))
def test_a_rehearsal_says_what_the_act_does(steps: list[tuple[str, Any]], source: dict[str, str]) -> None:
    history = History()
    history.play(steps)
    before = history.packages()

    plan = history.memory.quarantine(source=source, rehearse=True)
    assert history.packages() == before
    done = history.memory.quarantine(source=source, reason="incident 4")

    same = ("records", "restored", "law", "conflicts", "kept")
    assert [getattr(plan, name) for name in same] == [getattr(done, name) for name in same]
    hidden = {(one.scope, one.memory_id, one.snapshot) for one in history.memory.quarantined()}
    assert len(plan.hidden) <= len(hidden)
