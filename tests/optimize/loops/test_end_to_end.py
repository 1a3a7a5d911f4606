"""Three processes on one Redis, killed and restarted at random: the same report as undisturbed, and nothing
left over.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import redis

from standfast.clock import UUID
from standfast.optimize.loops.main import MainLoopRequest
from standfast.optimize.loops.optimize import OptimizeRequest, OptimizeResult
from standfast.optimize.loops.report import OptimizationReport
from standfast.optimize.mailboxes.mailbox import MailboxCounts
from standfast.optimize.prompts.backends import RedisPromptOverridesStore
from standfast.records.canon import canonical_bytes
from tests.figures import Figures
from tests.optimize.loops.harness import START, Harness, dataset, id_of
from tests.optimize.loops.killed_processes import GATE, PROVIDER, ROLES, mailbox, strategy
from tests.servers.redis import RedisServer

ROOT = Path(__file__).parents[3]
QUESTIONS = 12
REQUEST_ID = "e2e"
PATIENCE_SECONDS = 240.0


@dataclass
class Workers:
    """The three processes."""

    url: str
    latency_seconds: float
    length: str
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, role: str) -> None:
        """A new process for a role; it is up when its loop is."""
        command = [sys.executable, "-m", "tests.optimize.loops.killed_processes", role, self.url]
        command += [str(self.latency_seconds), self.length]
        self.processes[role] = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    def await_up(self, role: str) -> None:
        """Until the process has said so."""
        stdout = self.processes[role].stdout
        assert stdout is not None
        assert stdout.readline() == b"up\n"

    def kill(self, role: str) -> None:
        """SIGKILL."""
        process = self.processes[role]
        process.kill()
        process.communicate()


@contextmanager
def _workers(workers: Workers) -> Iterator[Workers]:
    try:
        for role in ROLES:
            workers.start(role)
        for role in ROLES:
            workers.await_up(role)
        yield workers
    finally:
        for role in ROLES:
            workers.kill(role)


@dataclass(frozen=True)
class Told:
    """What the outside harness hears of one run."""

    result: OptimizeResult
    answers: dict[UUID, str]
    counts: dict[str, MailboxCounts]
    tags: list[str]
    kills: int


@dataclass(frozen=True)
class Plan:
    """What is done, and what is done to it."""

    length: str
    samples: int
    kills: int
    seed: int
    latency_seconds: float = 0.0


def _run(server: RedisServer, plan: Plan) -> Told:
    server.start()
    server.flush()
    chance = random.Random(plan.seed)
    client = redis.Redis.from_url(server.url)
    boxes = {role: mailbox(client, role) for role in ROLES}
    results, answers = boxes["optimize"].reply_mailbox("results"), boxes["main"].reply_mailbox("answers")
    request: OptimizeRequest[Any, Any] = OptimizeRequest(
        prompt_ns="agent",
        prompt_key="sum",
        dataset=dataset(plan.samples),
        request_id=id_of("e2e"),
        created_at=START,
    )
    got: dict[UUID, str] = {}
    done: list[OptimizeResult] = []
    killed = 0
    with _workers(Workers(server.url, plan.latency_seconds, plan.length)) as workers:
        boxes["optimize"].send(request, reply_to="results")
        questions = [
            MainLoopRequest(request={"a": n, "b": 1}, request_id=id_of(f"q{n}")) for n in range(QUESTIONS)
        ]
        boxes["main"].send_many(questions, reply_to="answers")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (not done or len(got) < QUESTIONS) and time.monotonic() < deadline:
            if killed < plan.kills and not done:
                time.sleep(chance.uniform(0.05, 0.6))
                role = chance.choice(ROLES)
                workers.kill(role)
                workers.start(role)
                killed += 1
            done += _taken(results, 0.2)
            got |= {answer.request_id: answer.output for answer in _taken(answers, 0.05)}
        # Requests that were sent twice by an optimiser's earlier lives are still worked off.
        while time.monotonic() < deadline and any(_busy(box.counts()) for box in boxes.values()):
            time.sleep(0.1)
        counts = {role: box.counts() for role, box in boxes.items()}
    tags = [held.tag for held in RedisPromptOverridesStore(client=client).list()]
    client.close()
    assert done, "no report came"
    assert len({canonical_bytes(one.report.as_json()) for one in done}) == 1
    return Told(done[0], got, counts, tags, killed)


def _taken(box: Any, wait_seconds: float) -> list[Any]:
    messages = box.receive(max_messages=100, wait_time_seconds=wait_seconds)
    box.acknowledge(*messages)
    return [message.body for message in messages]


def _busy(counts: MailboxCounts) -> bool:
    return counts.ready + counts.leased + counts.delayed > 0


def _undisturbed(folder: Path, plan: Plan) -> OptimizationReport:
    """The same request in this process alone, with nobody to kill and no Redis."""
    harness = Harness(folder, PROVIDER, strategy(plan.length), gate=GATE)
    return harness.optimize(dataset(plan.samples), request_id=REQUEST_ID)


def _check(told: Told, report: OptimizationReport, figures: Figures, plan: Plan) -> None:
    figures(
        "optimisations among killed processes", kills=told.kills, evaluations=told.result.report.evaluations
    )

    assert told.result.error is None
    assert told.kills == plan.kills
    assert canonical_bytes(told.result.report.as_json()) == canonical_bytes(report.as_json())
    assert told.answers.keys() == {id_of(f"q{n}") for n in range(QUESTIONS)}
    assert told.tags == []
    assert set(told.counts.values()) == {MailboxCounts(ready=0, leased=0, delayed=0, dead=0)}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that nobody kills, and that therefore need not sync its disk."""
    made = RedisServer(tmp_path, appendonly=False)
    yield made
    made.stop()


def test_workers_that_are_killed_give_the_same_report(
    server: RedisServer, tmp_path: Path, figures: Figures
) -> None:
    plan = Plan(length="short", samples=45, kills=1, seed=1, latency_seconds=0.005)
    report = _undisturbed(tmp_path / "alone", plan)

    assert report.has_modifications
    _check(_run(server, plan), report, figures, plan)


@pytest.mark.slow
def test_workers_that_are_killed_twenty_times_give_the_same_report(
    server: RedisServer, tmp_path: Path, figures: Figures
) -> None:
    """As the same processes give undisturbed, and as one process gives alone."""
    plan = Plan(length="long", samples=90, kills=20, seed=2, latency_seconds=0.01)
    calm = replace(plan, kills=0, latency_seconds=0.0)
    report = _undisturbed(tmp_path / "alone", plan)

    assert report.has_modifications
    _check(_run(server, calm), report, figures, calm)
    _check(_run(server, plan), report, figures, plan)
