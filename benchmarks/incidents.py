"""Incidents: a simulation whose ground truth is known.

Agents work in runs: each recalls in a scope and writes facts, from a source, or derived from a record that it
was handed, which it cites. Five sources are planted. Half of the facts that cite nothing were shaped by what
the run had read all the same, which only the simulation knows.

Everything that rests on a planted source for certain must be found, and nothing else named as certain. After
the quarantine no package may show any of it, and every package must be that of a twin in which it was never
written. After the release every package must have its hash of before.
"""

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.measure import Ratio, at_most, shown
from standfast.clock import CountedIds, ManualClock
from standfast.memory import Memory, Quarantined
from standfast.recall.package import RecallPackage

TITLE = "Incidents"
PLANTED: Final = tuple({"kind": "doc", "id": f"planted-{number}"} for number in range(5))
_HONEST: Final = tuple({"kind": "doc", "id": f"handbook-{number}"} for number in range(20))
_TOPICS: Final = (
    "refunds",
    "shipping",
    "invoices",
    "passwords",
    "holidays",
    "contracts",
    "printers",
    "travel",
)
_SCOPES: Final = ("shared", *(f"user/{number}" for number in range(8)), "user/quiet")
_MAX_STEPS: Final = 4
_NOW: Final = "2027-01-01T00:00:00Z"
_PER_PACKAGE: Final = 400


@dataclass(slots=True)
class Fact:
    """A fact as the simulation knows it."""

    memory_id: str
    scope: str
    text: str
    source: dict[str, str] | None
    cites: str | None
    run: int
    agent: str
    steps: int = 0
    planted: frozenset[str] = frozenset()
    """The planted sources that it rests on by citations, its own included."""
    is_shaped: bool = False
    """Whether it rests on a planted source without saying so."""


@dataclass(slots=True)
class Simulation:
    """A memory with a history, and the truth about it."""

    memory: Memory
    facts: dict[str, Fact] = field(default_factory=dict)

    @property
    def planted(self) -> set[str]:
        """The ids of what rests on a planted source for certain."""
        return {name for name, fact in self.facts.items() if fact.planted}

    def packages(self) -> dict[tuple[str, str], RecallPackage]:
        """A package for every topic in every scope."""
        found = {}
        for scope in _SCOPES:
            for topic in _TOPICS:
                package = self.memory.recall(
                    f"What about {topic}?", scope=scope, tokens=_PER_PACKAGE, now_utc=_NOW
                )
                assert isinstance(package, RecallPackage)
                found[scope, topic] = package
        return found


def simulate(folder: Path, *, runs: int, agents: int, seed: int = 7) -> Simulation:
    """Let agents work, and keep the truth."""
    memory = Memory.open(
        str(folder / "agents.db"), recall_log=True, traces=None, clock=ManualClock(), ids=CountedIds()
    )
    simulation, chance = Simulation(memory), random.Random(seed)
    for number in range(runs):
        # Nobody plants anything in the last scope.
        scope, topic = chance.choice(_SCOPES), chance.choice(_TOPICS)
        is_quiet = scope == _SCOPES[-1]
        agent = f"agent-{chance.randrange(agents)}"
        with memory.run(workflow="work", mode="buffered_write", agent=agent, run_id=f"run-{number}") as run:
            package = run.recall(f"What about {topic}?", scope=scope, tokens=_PER_PACKAGE)
            known = [simulation.facts[item.memory_id] for item in package.items]
            read = frozenset[str]().union(*(fact.planted for fact in known))
            for place in range(chance.randint(1, 2)):
                parents = [fact for fact in known if fact.steps < _MAX_STEPS]
                cited = chance.choice(parents) if parents and chance.random() < 0.45 else None
                source = None if cited else chance.choice(_HONEST)
                if cited is None and not is_quiet and chance.random() < 0.1:
                    source = chance.choice(PLANTED)
                memory_id = f"fact/{number}-{place}"
                own = frozenset([source["id"]]) if source in PLANTED and source else frozenset[str]()
                simulation.facts[memory_id] = fact = Fact(
                    memory_id,
                    scope,
                    f"Rule {number}-{place} about {topic}: case {chance.randrange(10**6)} takes a day.",
                    source,
                    None if cited is None else cited.memory_id,
                    number,
                    agent,
                    0 if cited is None else cited.steps + 1,
                    own if cited is None else cited.planted,
                    is_shaped=cited is None and not own and bool(read) and chance.random() < 0.5,
                )
                _write(run, fact)
    return simulation


def _write(run: object, fact: Fact) -> None:
    refs = [] if fact.cites is None else [{"kind": "memory", "id": fact.cites}]
    answer = run.remember(  # type: ignore[attr-defined]  # A run.
        fact.text, subject=fact.memory_id, scope=fact.scope, source=fact.source, refs=refs
    )
    assert answer.accepted, answer


def twin_of(simulation: Simulation, folder: Path) -> Simulation:
    """The same history without anything that rests on a planted source."""
    memory = Memory.open(str(folder / "twin.db"), traces=None, clock=ManualClock(), ids=CountedIds())
    twin = Simulation(memory)
    for number in sorted({fact.run for fact in simulation.facts.values()}):
        facts = [one for one in simulation.facts.values() if one.run == number and not one.planted]
        if facts:
            agent = facts[0].agent
            with memory.run(
                workflow="work", mode="buffered_write", agent=agent, run_id=f"run-{number}"
            ) as run:
                for fact in facts:
                    twin.facts[fact.memory_id] = fact
                    _write(run, fact)
    return twin


@dataclass(frozen=True, slots=True)
class Outcome:
    """What investigating, hiding and releasing came to."""

    truth: int
    missed: int
    wrongly_certain: int
    possible: int
    possible_right: int
    shown_after: int
    changed_beside: int
    unlike_twin: int
    packages: int
    not_restored: int
    slowest_seconds: float


def outcome_of(simulation: Simulation, folder: Path) -> Outcome:
    """Investigate every planted source, quarantine all of them, compare all packages, and release."""
    memory, before = simulation.memory, simulation.packages()
    missed = wrong = possible = right = 0
    slowest = 0.0
    for source in PLANTED:
        began = process_time()
        found = memory.investigate(source=source)
        slowest = max(slowest, process_time() - began)
        told = {node.memory_id for node in (*found.start, *found.certain)}
        true = {name for name, fact in simulation.facts.items() if source["id"] in fact.planted}
        missed, wrong = missed + len(true - told), wrong + len(told - true)
        possible += len(found.possible)
        right += sum(simulation.facts[node.memory_id].is_shaped for node in found.possible)
    acts: list[Quarantined] = [memory.quarantine(source=one, reason="a drill") for one in PLANTED]
    after, twin = simulation.packages(), twin_of(simulation, folder).packages()
    hidden = simulation.planted
    quiet = [key for key in before if key[0] == _SCOPES[-1]]
    for act in acts:
        memory.release(act.act_id, reason="the drill is over")
    released = simulation.packages()
    return Outcome(
        truth=len(hidden),
        missed=missed,
        wrongly_certain=wrong,
        possible=possible,
        possible_right=right,
        shown_after=sum(item.memory_id in hidden for one in after.values() for item in one.items),
        changed_beside=sum(before[key].package_hash != after[key].package_hash for key in quiet),
        unlike_twin=sum(_told(after[key]) != _told(twin[key]) for key in after),
        packages=len(before),
        not_restored=sum(before[key].package_hash != released[key].package_hash for key in before),
        slowest_seconds=slowest,
    )


def _told(package: RecallPackage) -> list[tuple[str, str]]:
    return [(item.memory_id, item.excerpt) for item in package.items]


def run() -> list[Ratio]:
    """1,000 runs of 50 agents."""
    with tempfile.TemporaryDirectory() as name:
        found = outcome_of(simulate(Path(name), runs=1_000, agents=50), Path(name))
    detail = f"{found.truth} facts rest on five planted sources, over up to four steps"
    share = found.possible_right / max(1, found.possible)
    return [
        at_most("certain descendants that were missed", found.missed, 0, detail, unit=""),
        at_most("facts wrongly named as certain", found.wrongly_certain, 0, unit=""),
        shown(
            "possible descendants that were really shaped",
            share,
            f"{found.possible_right} of {found.possible}; half of what a run writes after reading is shaped",
        ),
        at_most("planted or derived facts shown after quarantine", found.shown_after, 0, unit=""),
        at_most("packages beside it that changed", found.changed_beside, 0, unit=""),
        at_most(
            "packages unlike those of a twin without the plant",
            found.unlike_twin,
            0,
            f"of {found.packages}",
            unit="",
        ),
        at_most("packages that a release did not restore", found.not_restored, 0, unit=""),
        at_most("seconds of the processor that an investigation took", found.slowest_seconds, 2, unit=" s"),
    ]
