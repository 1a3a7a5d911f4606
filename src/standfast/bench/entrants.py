"""Who takes part in the benchmark: a policy and the track it sees.

Shipped policies run in the benchmark's own process. Every other policy runs in a process of its own that is
given one step at a time, and its module is never imported here. A new process is started for each run, so
that no run learns from another.
"""

import hashlib
import importlib.util
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from standfast.errors import PolicyProcessFailed, UnknownPolicy
from standfast.limits import MAX_POLICY_ANSWER_BYTES, POLICY_ANSWER_SECONDS
from standfast.policies import ByteMemoryStore, ByteModel, Compression, PolicySpec, Track, WritePolicy
from standfast.policies.policy_process import (
    Message,
    PolicyAnswer,
    SentAction,
    ShowStep,
    StartPolicy,
    TellUtility,
)
from standfast.records.vocabulary import ActionType, MemoryAction, Step

_CHUNK_BYTES: Final = 1 << 16
_INHERITED: Final = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL", "TMPDIR", "TEMP")


class Entrant(msgspec.Struct, frozen=True):
    """A policy in the benchmark and the track it sees.

    ``Name@privileged`` shows an unprivileged policy the hints, too.
    """

    spec: PolicySpec
    track: Track
    declared: Track

    @classmethod
    def parse(cls, text: str) -> "Entrant":
        """Read ``Name``, ``Name(setting=value)`` or either with ``@track``."""
        name, _, track = text.partition("@")
        spec = PolicySpec.read(name)
        declared = PolicySpec.parse(name).track if spec.shipped else _declared_track(spec, tuple(sys.path))
        if not track:
            return cls(spec, declared, declared)
        if not (declared is Track.UNPRIVILEGED and track in (Track.UNPRIVILEGED, Track.PRIVILEGED)):
            problem = (
                f"it is on the {declared} track; only an unprivileged policy can be shown more, with"
                " @privileged"
            )
            raise UnknownPolicy(policy=repr(text), problem=problem)
        return cls(spec, Track(track), declared)

    def __str__(self) -> str:
        return str(self.spec) if self.track is self.declared else f"{self.spec}@{self.track}"

    @property
    def seeded(self) -> bool:
        """Whether another seed may give another run.

        A policy that is not shipped is assumed to use its seed.
        """
        return not self.spec.shipped or (self.spec.takes_seed and "seed" not in dict(self.spec.settings))

    @contextmanager
    def policy(self, seed: int) -> Iterator[WritePolicy]:
        """Build the policy for one run. A policy that is not shipped ends with its process."""
        if self.spec.shipped:
            yield self.spec.build(seed=seed)
            return
        isolated = IsolatedPolicy(self.spec, seed)
        try:
            yield isolated
        finally:
            isolated.close()


@cache
def _declared_track(spec: PolicySpec, path: tuple[str, ...]) -> Track:  # noqa: ARG001  # Another path may find another module.
    """Ask a policy for its track, in a process of its own."""
    isolated = IsolatedPolicy(spec, 0)
    try:
        track = isolated.start(max_bytes=1, byte_model=ByteModel.SPEC, compression=Compression.NEVER)
    except PolicyProcessFailed as error:
        raise UnknownPolicy(policy=str(spec), problem=error.facts["problem"]) from None
    finally:
        isolated.close()
    if track is Track.ORACLE:
        raise UnknownPolicy(policy=str(spec), problem="the oracle track is for the shipped upper bounds only")
    return track


def foreign_code(spec: PolicySpec) -> str:
    """Return a hash of the package of a policy that is not shipped, or of its module. Nothing is imported."""
    found = importlib.util.find_spec(spec.module.partition(".")[0])
    files: list[Path] = []
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        files += sorted(Path(folder).rglob("*.py"))
    if not files and found is not None and found.origin is not None and Path(found.origin).is_file():
        files = [Path(found.origin)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class IsolatedPolicy:
    """A policy in a process of its own. To the runner it is a policy like any other."""

    def __init__(self, spec: PolicySpec, seed: int) -> None:
        self._spec = spec
        self._seed = seed
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""

    def start(self, *, max_bytes: int, byte_model: ByteModel, compression: Compression) -> Track:
        """Start the process and build the policy there; return its track."""
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
        # The order of sets must not differ from run to run.
        environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "standfast.policies.policy_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=Path(sys.prefix),
        )
        started = StartPolicy(
            policy=str(self._spec),
            seed=self._seed,
            max_bytes=max_bytes,
            byte_model=byte_model,
            compression=compression,
        )
        return Track(self._ask(started).track)

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
        assert process.stdin is not None, "it is a pipe"
        try:
            process.stdin.write(msgspec.json.encode(message) + b"\n")
            process.stdin.flush()
            answer = msgspec.json.decode(self._line(process), type=PolicyAnswer)
        except (OSError, msgspec.MsgspecError) as error:
            raise PolicyProcessFailed(problem=f"its process gave no answer: {error}") from None
        if answer.problem is not None:
            raise PolicyProcessFailed(problem=answer.problem)
        return answer

    def _line(self, process: "subprocess.Popen[bytes]") -> bytes:
        assert process.stdout is not None, "it is a pipe"
        source = process.stdout.fileno()
        while b"\n" not in self._received:
            # Pipes can't be waited for on Windows; there, an endless policy is for its user to stop.
            if os.name == "posix" and not select.select([source], [], [], POLICY_ANSWER_SECONDS)[0]:
                raise PolicyProcessFailed(
                    problem=f"it gave no answer within {POLICY_ANSWER_SECONDS:.0f} seconds"
                )
            chunk = os.read(source, _CHUNK_BYTES)
            if not chunk:
                raise PolicyProcessFailed(problem=f"its process ended with exit code {process.wait()}")
            self._received += chunk
            if len(self._received) > MAX_POLICY_ANSWER_BYTES:
                raise PolicyProcessFailed(
                    problem=f"its answer is longer than {MAX_POLICY_ANSWER_BYTES} bytes"
                )
        line, _, self._received = self._received.partition(b"\n")
        return line


def _action(sent: SentAction, shown: Step) -> MemoryAction:
    action = ActionType(sent.action)
    other = sent.step
    if other is not None:
        step = Step(t=other["t"], observation=other["observation"], metadata=other["metadata"])
    else:
        step = shown
    needs_step = action in (ActionType.WRITE, ActionType.MERGE)
    return MemoryAction(
        action=action,
        step=step if needs_step else None,
        target_t=sent.target_t,
        delta=sent.delta,
        compress=sent.compress,
    )
