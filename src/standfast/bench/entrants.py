"""Who takes part in the benchmark: a policy and the track it sees.

Shipped policies run in the benchmark's own process. Every other policy runs in a process of its own that is
given one step at a time, and its module is never imported here. A new process is started for each run, so
that no run learns from another.
"""

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import msgspec

from standfast.bench.sandbox import (
    PolicyCode,
    best_isolation,
    code_hash,
    environment,
    locate,
    one_line,
    readable_places,
    staged_code,
    start_command,
)
from standfast.clock import SystemClock
from standfast.errors import PolicyProcessFailed, StandfastError, UnknownPolicy
from standfast.limits import MAX_POLICY_ANSWER_BYTES, POLICY_ANSWER_SECONDS, POLICY_RUN_SECONDS
from standfast.policies import ByteMemoryStore, ByteModel, Compression, PolicySpec, Track, WritePolicy
from standfast.policies.lockdown import Isolation
from standfast.policies.policy_process import (
    Message,
    PolicyAnswer,
    SentAction,
    ShowStep,
    StartPolicy,
    TellUtility,
)
from standfast.records.conversion import decoded
from standfast.records.vocabulary import ActionType, MemoryAction, Step

_CHUNK_BYTES: Final = 1 << 16


class Entrant(msgspec.Struct, frozen=True):
    """A policy in the benchmark and its track. ``Name@privileged`` shows an unprivileged one the hints."""

    spec: PolicySpec
    track: Track
    declared: Track
    place: str = ""
    """The class of a policy that is not shipped, as ``module:Class``."""
    folder: str = ""
    """Where its code is; empty if it is installed."""
    isolation: Isolation = Isolation.NONE
    """What it is isolated by. Shipped policies run in this process."""

    @classmethod
    def parse(
        cls, text: str, code: PolicyCode | None = None, isolation: Isolation | None = None
    ) -> "Entrant":
        """Read ``Name``, ``Name(setting=value)`` or either with ``@track``.

        Args:
            text: The policy and, after ``@``, a track that shows it more than it declares.
            code: Where policies come from that are neither shipped nor installed.
            isolation: What a policy that is not shipped is isolated by; by default the best that there is.
        """
        name, _, track = text.partition("@")
        spec = PolicySpec.read(name, known=code.places if code is not None else ())
        if spec.shipped:
            place, folder, isolation = "", "", Isolation.NONE
            declared = PolicySpec.parse(name).track
        else:
            place, folder = locate(spec, code)
            isolation = best_isolation() if isolation is None else isolation
            declared = _declared_track(spec, place, folder, isolation, code_hash(folder, place))
        shown = declared
        if track:
            if not (declared is Track.UNPRIVILEGED and track in (Track.UNPRIVILEGED, Track.PRIVILEGED)):
                problem = (
                    f"it is on the {declared} track; only an unprivileged policy can be shown more, with"
                    " @privileged"
                )
                raise UnknownPolicy(policy=repr(text), problem=problem)
            shown = Track(track)
        return cls(spec, shown, declared, place, folder, isolation)

    def __str__(self) -> str:
        return str(self.spec) if self.track is self.declared else f"{self.spec}@{self.track}"

    @property
    def seeded(self) -> bool:
        """Whether another seed may give another run. A policy that is not shipped may use its seed."""
        return not self.spec.shipped or (self.spec.takes_seed and "seed" not in dict(self.spec.settings))

    @contextmanager
    def policy(self, seed: int) -> Iterator[WritePolicy]:
        """Build the policy for one run. A policy that is not shipped ends with its process."""
        if self.spec.shipped:
            yield self.spec.build(seed=seed)
            return
        isolated = self.isolated(seed)
        try:
            yield isolated
        finally:
            isolated.close()

    def isolated(self, seed: int) -> "IsolatedPolicy":
        """Return a policy that is not shipped, in a process of its own that is started when it is asked."""
        return IsolatedPolicy(self.spec, self.place, self.folder, self.isolation, seed)

    @property
    def code(self) -> str:
        """A hash of the code of a policy that is not shipped."""
        return code_hash(self.folder, self.place) if self.place else ""


@cache
def _declared_track(spec: PolicySpec, place: str, folder: str, isolation: Isolation, _code: str) -> Track:
    """Ask a policy for its track, in a process of its own."""
    isolated = IsolatedPolicy(spec, place, folder, isolation, 0)
    try:
        track = isolated.start(max_bytes=1, byte_model=ByteModel.SPEC, compression=Compression.NEVER)
    except PolicyProcessFailed as error:
        raise UnknownPolicy(policy=str(spec), problem=error.facts["problem"]) from None
    finally:
        isolated.close()
    if track is Track.ORACLE:
        raise UnknownPolicy(policy=str(spec), problem="the oracle track is for the shipped upper bounds only")
    return track


class IsolatedPolicy:
    """A policy in a process of its own. To the runner it is a policy like any other."""

    def __init__(self, spec: PolicySpec, place: str, folder: str, isolation: Isolation, seed: int) -> None:
        self._spec = spec
        self._place = place
        self._folder = folder
        self._isolation = isolation
        self._seed = seed
        self._process: subprocess.Popen[bytes] | None = None
        self._received = bytearray()
        self._clock = SystemClock()
        self._waited_seconds = 0.0

    def start(self, *, max_bytes: int, byte_model: ByteModel, compression: Compression) -> Track:
        """Start the process and build the policy there; return its track."""
        copied = staged_code(self._folder)
        self._process = subprocess.Popen(  # noqa: S603  # This Python, isolated.
            start_command(copied, self._isolation),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd=os.sep,
        )
        started = StartPolicy(
            place=self._place,
            settings=dict(self._spec.settings),
            folder=copied,
            readable=readable_places(copied),
            isolation=self._isolation,
            seed=self._seed,
            max_bytes=max_bytes,
            byte_model=byte_model,
            compression=compression,
        )
        try:
            track = self._ask(started).track
            return Track(track)
        except ValueError:
            raise PolicyProcessFailed(problem=f"it answered with the track {track!r:.40}") from None

    def select(self, step: Step, store: ByteMemoryStore) -> list[MemoryAction]:
        """Show the policy a step and return its actions."""
        prices, budget = store.prices, store.budget
        if self._process is None:
            self.start(max_bytes=budget.max_bytes, byte_model=prices.model, compression=prices.compression)
        shown = ShowStep(
            t=step.t,
            observation=step.observation,
            metadata=step.metadata,
            others_bytes=budget.used_bytes - store.held_bytes,
        )
        return [_action(sent, step) for sent in self._ask(shown).actions]

    def learn(self, step: Step, utility: float) -> None:  # noqa: ARG002  # The process knows its last step.
        """Tell a policy on the bandit track the utility of the last step."""
        self._ask(TellUtility(utility=utility))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _ask(self, message: Message) -> PolicyAnswer:
        process = self._process
        assert process is not None, "the process is started first"
        begun = self._clock.monotonic()
        try:
            self._send(process, msgspec.json.encode(message) + b"\n", begun)
            answer = decoded(self._line(process, begun), PolicyAnswer)
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise PolicyProcessFailed(problem=f"its process gave no answer: {one_line(error)}") from None
        self._waited_seconds += self._clock.monotonic() - begun
        if answer.problem is not None:
            raise PolicyProcessFailed(problem=one_line(answer.problem))
        return answer

    def _send(self, process: "subprocess.Popen[bytes]", message: bytes, begun: float) -> None:
        """Write a message. A process that does not read can't hold us up."""
        assert process.stdin is not None, "it is a pipe"
        target = process.stdin.fileno()
        if os.name == "posix":
            os.set_blocking(target, False)
        left = memoryview(message)
        while left:
            self._wait(begun, [], [target])
            left = left[os.write(target, left) :]

    def _line(self, process: "subprocess.Popen[bytes]", begun: float) -> bytes:
        assert process.stdout is not None, "it is a pipe"
        source, searched = process.stdout.fileno(), 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            self._wait(begun, [source], [])
            chunk = os.read(source, _CHUNK_BYTES)
            if not chunk:
                raise PolicyProcessFailed(problem=f"its process ended with exit code {process.wait()}")
            self._received += chunk
            if len(self._received) > MAX_POLICY_ANSWER_BYTES:
                raise PolicyProcessFailed(
                    problem=f"its answer is longer than {MAX_POLICY_ANSWER_BYTES} bytes"
                )
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _wait(self, begun: float, sources: list[int], targets: list[int]) -> None:
        """Wait until a pipe is ready, as long as the whole answer and the whole run may take.

        Pipes can't be waited for on Windows; there, an endless policy is for its user to stop.
        """
        if os.name != "posix":
            return
        spent = self._clock.monotonic() - begun
        limits = (POLICY_ANSWER_SECONDS - spent, POLICY_RUN_SECONDS - self._waited_seconds - spent)
        if min(limits) <= 0 or not any(select.select(sources, targets, [], min(limits))):
            which = f"the answers of a run within {POLICY_RUN_SECONDS:.0f} seconds"
            if limits[0] <= limits[1]:
                which = f"an answer within {POLICY_ANSWER_SECONDS:.0f} seconds"
            raise PolicyProcessFailed(problem=f"it did not give {which}")


def _action(sent: SentAction, shown: Step) -> MemoryAction:
    """Return an action as the store takes it, or raise ``PolicyProcessFailed`` if it is none."""
    try:
        action = ActionType(sent.action)
        other = sent.step
        step = shown
        if other is not None:
            step = Step(t=other["t"], observation=other["observation"], metadata=other["metadata"])
    except (ValueError, KeyError, TypeError, StandfastError) as error:
        problem = f"it answered with an action that is none: {one_line(repr(error))}"
        raise PolicyProcessFailed(problem=problem) from None
    if action in (ActionType.MERGE, ActionType.EXPIRE) and sent.target_t is None:
        raise PolicyProcessFailed(problem=f"it answered with {action} without a target")
    needs_step = action in (ActionType.WRITE, ActionType.MERGE)
    return MemoryAction(
        action=action,
        step=step if needs_step else None,
        target_t=sent.target_t,
        delta=sent.delta,
        compress=sent.compress,
    )
