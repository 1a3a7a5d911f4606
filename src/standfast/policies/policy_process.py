"""The process in which the benchmark runs a policy that is not shipped.

It is given a policy's name and then one step at a time, and answers each with the policy's actions. It knows
no label and no later step. It has a store of its own for the policy to look at; the store that is graded is
in the parent process, which applies the same actions and decides by its own prices what is accepted.

Before any code of the policy is loaded, the process gives up everything but this exchange
(``policies/lockdown.py``).
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from standfast.errors import StandfastError, UnknownPolicy
from standfast.policies.byte_model import ByteModel, Compression, PriceList, frozen
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.lockdown import Isolation, lock_down
from standfast.policies.write_policy import BanditPolicy, PolicySpec, WritePolicy, apply_policy
from standfast.records.vocabulary import MemoryAction, Step


class StartPolicy(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first message: which policy to build, and the store that it sees."""

    place: str
    """The policy's class, as ``module:Class``."""
    settings: dict[str, Any]
    folder: str
    """Where the policy's code is; empty if it is installed."""
    readable: tuple[str, ...]
    """The files and folders that can be read from now on."""
    isolation: Isolation
    seed: int
    max_bytes: int
    byte_model: ByteModel
    compression: Compression


class ShowStep(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """A step to decide about. ``others_bytes`` is what other stores use of a shared budget."""

    t: int
    observation: Any
    metadata: dict[str, Any]
    others_bytes: int


class TellUtility(msgspec.Struct, frozen=True, kw_only=True, tag="utility"):
    """The utility of the last step, for a policy on the bandit track."""

    utility: float


class SentAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a policy. ``step`` is given only if it is not the step that was shown."""

    action: str
    target_t: int | None = None
    delta: dict[str, Any] | None = None
    compress: bool = False
    step: dict[str, Any] | None = None


class PolicyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a message: the policy's track, its actions, or what went wrong."""

    track: str = ""
    actions: list[SentAction] = []
    problem: str | None = None


Message = StartPolicy | ShowStep | TellUtility

_DESCRIPTORS: Final = (0, 1, 2)


def main() -> None:
    """Answer messages from the standard input until it ends."""
    lines, answers = _claim_channel()
    decode = msgspec.json.Decoder(Message).decode
    session: PolicySession | None = None
    for line in lines:
        message = decode(line)
        try:
            if isinstance(message, StartPolicy):
                session = PolicySession(message)
                answer = PolicyAnswer(track=str(session.spec.track))
            else:
                assert session is not None, "a policy is started first"
                answer = session.answer(message)
            encoded = msgspec.json.encode(answer)
        except Exception as error:  # noqa: BLE001  # A user's policy may raise anything.
            if session is None and not isinstance(error, StandfastError):
                # The process did not get as far as the policy; it must not go on half isolated.
                answers.write(msgspec.json.encode(PolicyAnswer(problem=str(error))) + b"\n")
                return
            problem = str(error) if isinstance(error, StandfastError) else repr(error)
            encoded = msgspec.json.encode(PolicyAnswer(problem=problem))
        answers.write(encoded + b"\n")
        answers.flush()


class PolicySession:
    """A policy and the store that it sees."""

    def __init__(self, start: StartPolicy) -> None:
        lock_down(start.readable, start.isolation)
        if start.folder:
            _load_from(start.folder, start.place.partition(":")[0])
        self.spec = PolicySpec(start.place, tuple(sorted(start.settings.items()))).checked()
        self._policy: WritePolicy = self.spec.build(seed=start.seed)
        prices = PriceList(start.byte_model, compression=start.compression)
        self._store = ByteMemoryStore(ByteBudget(start.max_bytes), prices=prices)
        self._step = Step(t=0, observation=None)

    def answer(self, message: ShowStep | TellUtility) -> PolicyAnswer:
        """Show the policy a step, or tell it the utility of the last one."""
        if isinstance(message, TellUtility):
            assert isinstance(self._policy, BanditPolicy), "only a bandit is told utilities"
            self._policy.learn(self._step, message.utility)
            return PolicyAnswer()
        step = Step(t=message.t, observation=frozen(message.observation), metadata=frozen(message.metadata))
        self._step = step
        store = self._store
        store.budget.used_bytes = store.held_bytes + message.others_bytes
        applied = apply_policy(self._policy, step, store)
        return PolicyAnswer(actions=[_sent(action, step) for action, _ in applied])


def _sent(action: MemoryAction, shown: Step) -> SentAction:
    own = action.step is None or action.step is shown or action.step == shown
    return SentAction(
        action=action.action.value,
        target_t=action.target_t,
        delta=action.delta,
        compress=action.compress,
        step=None if own or action.step is None else action.step.as_json(),
    )


def _claim_channel() -> tuple[BinaryIO, BinaryIO]:
    """Move the channel to descriptors of its own, so that a policy that prints does not disturb it."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in _DESCRIPTORS:
        os.dup2(nothing, descriptor)
    return lines, answers


def _load_from(folder: str, module: str) -> None:
    """Load the top package of a module from this folder and from nowhere else.

    Other modules of the folder can be imported, too, but none takes the place of an installed one.
    """
    name = module.partition(".")[0]
    if name in sys.modules or name in sys.stdlib_module_names:
        raise UnknownPolicy(policy=module, problem="another module has its name; rename the policy's module")
    package = Path(folder) / name / "__init__.py"
    file = package if package.is_file() else Path(folder) / f"{name}.py"
    inside = [str(package.parent)] if file is package else None
    found = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert found is not None, "a file of Python has a loader"
    assert found.loader is not None, "a file of Python has a loader"
    sys.path.append(folder)
    loaded = importlib.util.module_from_spec(found)
    sys.modules[name] = loaded
    try:
        found.loader.exec_module(loaded)
    except Exception as error:
        raise UnknownPolicy(policy=module, problem=f"it can't be loaded: {error!r}") from error


if __name__ == "__main__":
    main()
