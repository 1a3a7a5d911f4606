"""The process in which the benchmark runs a policy that is not shipped: ``python -m
standfast.policies.policy_process``.

It is given a policy's name and then one step at a time, and answers each with the policy's actions. It knows
no label and no later step. It has a store of its own for the policy to look at; the store that is graded is
in the parent process, which applies the same actions and decides by its own prices what is accepted.

An audit hook refuses files and folders that are not code, sockets and other processes, so that a policy can't
read an episode file, guess a seed from its name, or leave notes for its next run. Such a hook is a fence and
not a prison: native code can get past it. Grade entries that you have reason to distrust in a container that
holds no episode files but those to be graded.
"""

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import msgspec

from standfast.errors import StandfastError
from standfast.policies.byte_model import ByteModel, Compression, PriceList, frozen
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.write_policy import BanditPolicy, PolicySpec, WritePolicy, apply_policy
from standfast.records.vocabulary import MemoryAction, Step


class StartPolicy(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first message: which policy to build, and the store that it sees."""

    policy: str
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
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED_EVENTS: Final = frozenset(
    f"{module}.{name}"
    for module, names in {
        "os": (
            "chmod chown exec fork forkpty kill link mkdir posix_spawn remove rename rmdir spawn startfile"
            " symlink system truncate"
        ),
        "ctypes": "dlsym dlsym/handle",
        "ftplib": "connect",
        "http.client": "connect",
        "imaplib": "open",
        "pty": "spawn",
        "shutil": "copyfile move rmtree",
        "smtplib": "connect",
        "socket": "__new__ bind connect",
        "sqlite3": "connect",
        "subprocess": "Popen",
        "sys": "settrace setprofile",
        "urllib": "Request",
    }.items()
    for name in names.split()
)
_LISTING: Final = frozenset(("os.listdir", "os.scandir"))
# Native modules that open files, start programs or run code without an audit event; interpreters of their own
# have no hook. A second import of ``_posixsubprocess`` would undo ``_disarm``.
_REFUSED_MODULES: Final = frozenset(
    module
    for modules in (
        "_posixsubprocess _interpreters _xxsubinterpreters _testcapi _testinternalcapi _testmultiphase",
        "_tkinter readline _dbm _gdbm apsw psycopg_c psycopg_binary",
    )
    for module in modules.split()
)


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
            problem = str(error) if isinstance(error, StandfastError) else repr(error)
            encoded = msgspec.json.encode(PolicyAnswer(problem=problem))
        answers.write(encoded + b"\n")
        answers.flush()


class PolicySession:
    """A policy and the store that it sees."""

    def __init__(self, start: StartPolicy) -> None:
        spec = PolicySpec.read(start.policy)
        install_fence(spec.module)
        self.spec = PolicySpec.parse(start.policy)
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


def install_fence(module: str) -> None:
    """Refuse files that are not code, sockets and other processes from now on.

    The policy's own package may be read.
    """
    roots = {sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"]}
    found = importlib.util.find_spec(module.partition(".")[0])
    roots.update(found.submodule_search_locations or () if found is not None else ())
    may_read = _readable(sorted(map(os.path.realpath, roots)))
    listed = {os.path.realpath(entry) for entry in sys.path}
    _disarm()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = (flags or 0) & _WRITES or set(mode or "") & set("wax+")
            if not isinstance(path, int) and (writes or not may_read(os.fsdecode(path))):
                raise PermissionError(f"a policy in the benchmark can't open {os.fsdecode(path)}")
        elif event in _LISTING:
            path = os.curdir if arguments[0] is None else arguments[0]
            if isinstance(path, int) or not (os.path.realpath(path) in listed or may_read(os.fsdecode(path))):
                raise PermissionError(f"a policy in the benchmark can't list {path!r:.80}")
        elif event == "import" and str(arguments[0]).rpartition(".")[2] in _REFUSED_MODULES:
            raise ImportError(f"a policy in the benchmark can't import {arguments[0]}")
        elif event in _REFUSED_EVENTS or (event == "ctypes.dlopen" and arguments[0] is not None):
            raise PermissionError(f"a policy in the benchmark can't use {event}")

    sys.addaudithook(hook)


def _disarm() -> None:
    """Take the function away that starts programs without an audit event.

    Modules that only import it still can.
    """
    if os.name == "posix":
        starter: Any = importlib.import_module("_posixsubprocess")
        starter.fork_exec = _refuse_program


def _refuse_program(*_: object) -> NoReturn:
    raise PermissionError("a policy in the benchmark can't start programs")


def _readable(roots: Iterable[str]) -> Callable[[str], bool]:
    code = tuple(importlib.machinery.all_suffixes())
    inside = tuple(root + os.sep for root in roots)

    def may_read(path: str) -> bool:
        real = os.path.realpath(path)
        described = Path(real).parent.suffix in (".dist-info", ".egg-info")
        return real.endswith(code) or described or (real + os.sep).startswith(inside)

    return may_read


if __name__ == "__main__":
    main()
