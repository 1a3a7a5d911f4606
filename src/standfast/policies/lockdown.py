"""What the process of a policy gives up before it loads the policy's code: memory, time, files, the network,
other processes, and every way to leave a note for another run.

Three things of the kernel do it, and a policy can't undo any of them, with native code either:

- limits of memory, processor time, open files and the length of files (``setrlimit``);
- Landlock: only the folders with code can be read, and nothing can be written or executed;
- a seccomp filter: the system calls of ``data/refused_calls.txt`` and those newer than that table fail.

Where bubblewrap is installed, the process is also in namespaces of its own (``bench/sandbox.py``), with
nothing but those folders in its file system.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

MEMORY_BYTES: Final = 4 << 30
PROCESSOR_SECONDS: Final = 3_600
OPEN_FILES: Final = 256
CALLS_FILE: Final = Path(__file__).parent / "data" / "refused_calls.txt"


class Isolation(StrEnum):
    """What keeps the process of a policy away from everything but the steps it is shown."""

    BUBBLEWRAP = "bubblewrap"
    """Namespaces of its own for users, mounts, network, IPC and processes; with seccomp and, where the kernel
    has it, Landlock."""

    LANDLOCK = "landlock"
    """Landlock and seccomp. Files can't be read, but whether a path exists can be found out."""

    NONE = "none"
    """A process of its own with limits. Its code is trusted: it could read labels if it looked for them."""


class Machine(NamedTuple):
    """An architecture: its number in seccomp's data, its column in the table, calls judged by arguments."""

    audit_arch: int
    column: int
    clone: int
    clone3: int
    fcntl: int
    ioctl: int
    prlimit: int


MACHINES: Final = {
    "x86_64": Machine(0xC000003E, 1, 56, 435, 72, 16, 302),
    "aarch64": Machine(0xC00000B7, 2, 220, 435, 25, 29, 261),
}
NEWEST_CALL: Final = 450
# Locks, leases and hints on a file that two runs can read would be notes, and an owner of a descriptor gets
# signals. (fcntl's F_SETLK, F_SETLKW, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE,
# F_NOTIFY, F_SET_RW_HINT and F_SET_FILE_RW_HINT.)
REFUSED_FCNTL: Final = (6, 7, 8, 10, 15, 37, 38, 1024, 1026, 1036, 1038)
# Other requests of ioctl change a file's flags or a terminal. (TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO,
# FIONCLEX and FIOCLEX.)
ALLOWED_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
CLONE_THREAD: Final = 0x00010000

_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_GET_ACTION_AVAIL: Final = 2
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION: Final = 1
_LANDLOCK_PATH_BENEATH: Final = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# How many access rights for files each version of Landlock knows.
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_FILE_RIGHTS: Final = 16

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS = 0x00050000 | 1, 0x00050000 | 38


def lock_down(readable: Iterable[str], isolation: Isolation) -> None:
    """Give up everything but reading these files and folders, for the rest of this process.

    Args:
        readable: Files and folders with code.
        isolation: What is promised. If the kernel does not give it, the process must not go on.

    Raises:
        OSError: The kernel refused a part of what is promised.
    """
    _set_limits()
    if isolation is Isolation.NONE:
        return
    libc: Any = ctypes.CDLL(None, use_errno=True)
    _call(libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(libc.prctl, _PR_SET_DUMPABLE, 0, 0, 0, 0)
    if isolation is Isolation.LANDLOCK or landlock_version():
        _restrict_files(libc, readable)
    _install_filter(libc)


def _set_limits() -> None:
    with suppress(ImportError):  # Windows has none.
        import resource  # noqa: PLC0415  # Not on every system.

        for name, most in (
            ("RLIMIT_AS", MEMORY_BYTES),
            ("RLIMIT_CPU", PROCESSOR_SECONDS),
            ("RLIMIT_NOFILE", OPEN_FILES),
            ("RLIMIT_FSIZE", 0),
            ("RLIMIT_CORE", 0),
        ):
            kind = getattr(resource, name, None)
            if kind is not None:
                _, hard = resource.getrlimit(kind)
                value = most if hard == resource.RLIM_INFINITY else min(most, hard)
                with suppress(ValueError, OSError):  # macOS refuses some; the isolation there is none.
                    resource.setrlimit(kind, (value, value))


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    libc: Any = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)))


def has_seccomp() -> bool:
    """Return whether the kernel takes filters of system calls, and the table knows this machine."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return False
    libc: Any = ctypes.CDLL(None, use_errno=True)
    refuse = ctypes.c_uint32(0x00050000)
    number = _SECCOMP[platform.machine()]
    return int(libc.syscall(number, _SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(refuse))) == 0


def _restrict_files(libc: Any, readable: Iterable[str]) -> None:
    version = landlock_version()
    files = (1 << _FILE_RIGHTS.get(version, _NEWEST_FILE_RIGHTS)) - 1
    network = 0b11 if version >= 4 else 0
    scoped = 0b11 if version >= 6 else 0
    rights = struct.pack("=QQQ", files, network, scoped)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _call(libc.syscall, _LANDLOCK_CREATE_RULESET, rights, size, 0)
    for path in readable:
        if not Path(path).exists():
            continue
        allowed = _READ_FILE | (_READ_DIR if Path(path).is_dir() else 0)
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            beneath = struct.pack("=Qi", allowed, place)
            _call(libc.syscall, _LANDLOCK_ADD_RULE, rules, _LANDLOCK_PATH_BENEATH, beneath, 0)
        finally:
            os.close(place)
    _call(libc.syscall, _LANDLOCK_RESTRICT_SELF, rules, 0)
    os.close(rules)


def refused_calls(column: int) -> list[int]:
    """Return the numbers of the refused calls on one architecture, ascending."""
    rows = (line.split() for line in CALLS_FILE.read_text(encoding="ascii").splitlines())
    found = {int(row[column]) for row in rows if row and row[0] != "#" and row[column] != "-"}
    return sorted(found)


def filter_program(machine: Machine) -> bytes:
    """Return the seccomp filter of an architecture, as instructions of the kernel's packet filter.

    Each test is followed by its answer, and a test that fails jumps over the answer, so that no jump is long.
    """
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, machine.audit_arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        # Also the second numbering of x86_64, which begins at 2^30.
        *_answer_if(_GREATER, NEWEST_CALL, _ENOSYS),
        # glibc starts threads by clone where there is no clone3, whose arguments a filter can't see.
        *_answer_if(_EQUAL, machine.clone3, _ENOSYS),
    ]
    for number in refused_calls(machine.column):
        code += _answer_if(_EQUAL, number, _EPERM)
    threads_only = [(_LOAD, 0, 0, _argument(0)), (_ANY_BIT, 1, 0, CLONE_THREAD), (_RETURN, 0, 0, _EPERM)]
    code += _for_call(machine.clone, threads_only)
    no_locks = [(_LOAD, 0, 0, _argument(1))]
    for command in REFUSED_FCNTL:
        no_locks += _answer_if(_EQUAL, command, _EPERM)
    code += _for_call(machine.fcntl, no_locks)
    known_only = [(_LOAD, 0, 0, _argument(1))]
    for request in ALLOWED_IOCTL:
        known_only += _answer_if(_EQUAL, request, _ALLOW)
    code += _for_call(machine.ioctl, [*known_only, (_RETURN, 0, 0, _EPERM)])
    own_limits_only = [(_LOAD, 0, 0, _argument(0)), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _EPERM)]
    code += _for_call(machine.prlimit, own_limits_only)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


_Instruction = tuple[int, int, int, int]


def _answer_if(test: int, value: int, answer: int) -> list[_Instruction]:
    return [(test, 0, 1, value), (_RETURN, 0, 0, answer)]


def _for_call(number: int, tests: Sequence[_Instruction]) -> list[_Instruction]:
    """Return tests of the arguments of one call; what passes them is allowed."""
    return [(_EQUAL, 0, len(tests) + 1, number), *tests, (_RETURN, 0, 0, _ALLOW)]


def _argument(place: int) -> int:
    return _ARGUMENTS + 8 * place


def _install_filter(libc: Any) -> None:
    machine = platform.machine()
    if machine not in MACHINES:
        raise OSError(f"there is no table of system calls for {machine}")
    code = filter_program(MACHINES[machine])
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    program = Program(len(code) // 8, ctypes.addressof(buffer))
    _call(libc.syscall, _SECCOMP[machine], _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(program))


def _call(function: Any, *arguments: Any) -> int:
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer = int(function(*wide))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refused a part of the isolation: {os.strerror(number)}")
    return answer
