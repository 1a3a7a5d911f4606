"""What a policy tries in its process comes to nothing, by the kernel and not by Python.

Each attack writes a step if it succeeds, so a run that retains nothing is a failed attack. Attacks that leave
notes run twice: the second run writes if it finds the first one's note.
"""

import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from standfast.bench import sandbox
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import plan_grid
from standfast.bench.runner import PricedEpisode
from standfast.bench.sandbox import PolicyCode, best_isolation, staged_code
from standfast.errors import BadFile, BenchError, UnknownPolicy
from standfast.policies.lockdown import Isolation
from tests.bench.episodes import small_episode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the isolation is Linux's")

ATTACKS = '''
import builtins, ctypes, gc, os, struct, sys, time
from standfast.policies import write

LABELS = {labels!r}
NOTES = {notes!r}
PARENT = os.getppid()
LIBC = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    LIBC.syscall.restype = ctypes.c_long
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno())
    return True


def spelled(kind, real):
    """A path that lies: text or bytes that are one thing to Python's checks and another to the kernel."""
    class Liar(kind):
        def __fspath__(self): return real
        def endswith(self, *_): return True
        def startswith(self, *_): return True
        def __str__(self): return "/usr/lib/python3/os.py"
    return Liar(real)


def patched(module, name):
    real = getattr(module, name)
    setattr(module, name, lambda path, *_, **__: "/usr/lib/python3/os.py")
    try:
        return open(LABELS).read()
    finally:
        setattr(module, name, real)


def no_refusals():
    for thing in gc.get_objects():
        if isinstance(thing, (set, dict)):
            try:
                thing.discard("open") if isinstance(thing, set) else None
            except Exception:
                pass
    return open(LABELS).read()


def by_descriptor():
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    return os.read(os.open(LABELS.lstrip("/"), os.O_RDONLY, dir_fd=folder), 10)


def opened_natively():
    descriptor = LIBC.open(LABELS.encode(), 0)
    return os.read(descriptor, 10) if descriptor >= 0 else None


def by_file_handle():
    return call(303, -100, LABELS.encode(), ctypes.create_string_buffer(128), ctypes.byref(ctypes.c_int()), 0)


def by_io_uring():
    return call(425, 4, ctypes.create_string_buffer(120))


def of_parent(name):
    return open(f"/proc/{{PARENT}}/{{name}}", "rb").read(10)


def memory_of_parent():
    target = ctypes.create_string_buffer(8)
    ours = struct.pack("QQ", ctypes.addressof(target), 8)
    theirs = struct.pack("QQ", 0x400000, 8)
    return call(310, PARENT, ours, 1, theirs, 1, 0)


def descriptor_of_parent():
    pidfd = LIBC.syscall(434, PARENT, 0)
    return call(438, pidfd, 0, 0)


def traced_parent():
    return call(101, 16, PARENT, 0, 0)


def killed_parent():
    os.kill(PARENT, 0)
    return True


def limited_parent():
    import resource
    return resource.prlimit(PARENT, resource.RLIMIT_NOFILE)


def connected(family, address):
    import socket
    with socket.socket(family) as one:
        one.settimeout(1)
        one.connect(address)
    return True


def abstract_socket():
    import socket
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("\\0standfast-note")
    return True


def program(*words):
    import subprocess
    return subprocess.run(words, capture_output=True).stdout


def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return True


def memory():
    return bytearray(64 << 30)


def threads():
    import _thread
    for _ in range(100_000):
        _thread.start_new_thread(time.sleep, (60,))
    return True


# Notes: the first run leaves one, the second finds it.

def by_attribute():
    path = os.__file__
    try:
        return os.getxattr(path, "user.note")
    except OSError:
        os.setxattr(path, "user.note", b"1")


def by_time():
    path = os.__file__
    if os.stat(path).st_mtime == 12345:
        return True
    os.utime(path, (12345, 12345))


def by_mode():
    if os.stat(os.__file__).st_mode & 0o111:
        return True
    os.chmod(os.__file__, 0o755)


def by_shared_memory():
    from multiprocessing import shared_memory
    try:
        return shared_memory.SharedMemory("standfast-note")
    except FileNotFoundError:
        shared_memory.SharedMemory("standfast-note", create=True, size=8)


def by_fifo():
    if os.path.exists(NOTES):
        return True
    os.mkfifo(NOTES)


def by_file(path):
    if os.path.exists(path):
        return True
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def beside_the_code():
    return by_file(os.path.join(os.path.dirname(__file__), "note"))


def by_segment():
    found = LIBC.shmget(4711, 8, 0)
    return True if found >= 0 else LIBC.shmget(4711, 8, 0o1600) and None


def by_queue():
    if LIBC.msgget(4711, 0) >= 0:
        return True
    LIBC.msgget(4711, 0o1600)


def by_semaphore():
    if LIBC.semget(4711, 1, 0) >= 0:
        return True
    LIBC.semget(4711, 1, 0o1600)


def by_message_queue():
    name = b"standfast-note"
    if LIBC.syscall(240, name, 0, 0, 0) >= 0:
        return True
    LIBC.syscall(240, name, 0o102, 0o600, 0)


def by_key():
    """The session's keyring is passed on from process to process."""
    if LIBC.syscall(249, b"user", b"standfast-note", None, -3) >= 0:
        return True
    LIBC.syscall(248, b"user", b"standfast-note", b"1", 1, -3)


def locked():
    import fcntl
    with open(os.__file__) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    return True


def record_locked():
    import fcntl
    with open(os.__file__) as file:
        fcntl.lockf(file, fcntl.LOCK_SH)
    return True


def watched():
    descriptor = LIBC.inotify_init1(0)
    return descriptor >= 0 and LIBC.inotify_add_watch(descriptor, os.__file__.encode(), 1) >= 0


def owner_of_signals():
    import fcntl
    return fcntl.fcntl(os.pipe()[0], 15, struct.pack("ii", 1, PARENT))


def signal_of_choice():
    import fcntl
    return fcntl.fcntl(os.pipe()[0], 10, 9) == 0


def life_hint():
    import fcntl
    with open(os.__file__) as file:
        return fcntl.fcntl(file, 1036, struct.pack("Q", 2))


def file_flags():
    """The flags of an inode, as chattr sets them."""
    import fcntl
    with open(os.__file__) as file:
        return fcntl.ioctl(file, 0x80086601, bytes(8))


def cached_pages():
    return call(27, ctypes.c_void_p(0), 0, ctypes.create_string_buffer(8))


def uncached():
    with open(os.__file__) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def if_cached():
    with open(os.__file__) as file:
        return os.preadv(file.fileno(), [bytearray(8)], 0, 0x8)


def new_session():
    os.setsid()
    return True


def new_namespace():
    return call(272, 0x10000000)


def environment():
    return [name for name in os.environ if name not in ("PYTHONHASHSEED", "LANG", "LC_CTYPE", "PWD", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")]


def listed(path):
    return os.listdir(path)



class Attempts:
    """Tries the attack whose number is the step's."""

    attacks = {attempts!r}

    def select(self, step, store):
        try:
            if eval(self.attacks[step.t]):
                yield write(step)
        except BaseException:
            pass


class Notes(Attempts):
    attacks = {note_attempts!r}


class Bombs(Attempts):
    attacks = {bombs!r}


class Harmless(Attempts):
    attacks = {harmless!r}
'''  # noqa: E501  # A text as a whole.
ATTEMPTS = {
    "read": "open(LABELS).read()",
    "patched_fsdecode": "patched(os, 'fsdecode')",
    "patched_realpath": "patched(os.path, 'realpath')",
    "lying_text": "open(spelled(str, LABELS)).read()",
    "lying_bytes": "open(spelled(bytes, LABELS.encode())).read()",
    "refused_events": "no_refusals()",
    "dir_fd": "by_descriptor()",
    "native_open": "opened_natively()",
    "file_handle": "by_file_handle()",
    "io_uring": "by_io_uring()",
    "parent_environ": "of_parent('environ')",
    "parent_memory_file": "of_parent('mem')",
    "parent_command": "of_parent('cmdline')",
    "parent_memory": "memory_of_parent()",
    "parent_descriptor": "descriptor_of_parent()",
    "ptrace": "traced_parent()",
    "kill": "killed_parent()",
    "prlimit": "limited_parent()",
    "network": "connected(2, ('127.0.0.1', 9))",
    "unix_socket": "connected(1, NOTES)",
    "abstract_socket": "abstract_socket()",
    "program": "program('cat', LABELS)",
    "system": "os.system('true') == 0",
    "exec_memory": "os.memfd_create('x')",
    "fork": "forked()",
    "namespace": "new_namespace()",
    "environment": "environment()",
    "list_episodes": "listed(os.path.dirname(LABELS))",
    "list_home": "listed(os.path.expanduser('~root'))",
    "list_tmp": "[one for one in listed('/tmp') if not one.startswith('standfast-policy-')]",
    "lock": "locked()",
    "record_lock": "record_locked()",
    "inotify": "watched()",
    "signal_owner": "owner_of_signals()",
    "signal_of_choice": "signal_of_choice()",
    "life_hint": "life_hint()",
    "file_flags": "file_flags()",
    "cached_pages": "cached_pages()",
    "uncached": "uncached()",
    "if_cached": "if_cached()",
    "new_session": "new_session()",
    "terminal": "os.open('/dev/tty', os.O_WRONLY)",
    "signal_group": "os.killpg(0, 0) is None",
    "priority_of_parent": "os.setpriority(os.PRIO_PROCESS, PARENT, 0) is None",
    "processors_of_parent": "os.sched_setaffinity(PARENT, os.sched_getaffinity(0)) is None",
    "own_descriptors": "listed('/proc/self/fd')",
    "mounts": "open('/proc/self/mounts').read()",
}
BOMBS = {"memory": "memory()", "threads": "threads()"}
# Those that succeed without isolation and do no harm to the machine; ptrace would stop the tests.
HARMLESS = {
    name: ATTEMPTS[name]
    for name in (
        "read", "dir_fd", "native_open", "parent_environ", "parent_command", "prlimit", "program", "kill",
        "fork", "exec_memory", "list_episodes", "lock", "record_lock", "inotify", "abstract_socket", "system",
        "signal_owner", "signal_of_choice", "cached_pages", "uncached", "new_session", "own_descriptors",
    )
}  # fmt: skip
KINDS = ("Attempts", "Notes", "Bombs", "Harmless")
NOTES = {
    "xattr": "by_attribute()",
    "mtime": "by_time()",
    "mode": "by_mode()",
    "shared_memory": "by_shared_memory()",
    "fifo": "by_fifo()",
    "file": "by_file(NOTES)",
    "file_in_tmp": "by_file('/tmp/standfast-note')",
    "file_in_shm": "by_file('/dev/shm/standfast-note')",
    "beside_code": "beside_the_code()",
    "sysv_memory": "by_segment()",
    "sysv_queue": "by_queue()",
    "sysv_semaphore": "by_semaphore()",
    "posix_queue": "by_message_queue()",
    "keyring": "by_key()",
}


def _offered() -> list[Isolation]:
    best = best_isolation()
    return [Isolation.BUBBLEWRAP, Isolation.LANDLOCK] if best is Isolation.BUBBLEWRAP else [best]


@pytest.fixture(params=_offered())
def isolation(request: pytest.FixtureRequest) -> Isolation:
    assert request.param is not Isolation.NONE, "this machine can't run the tests of its isolation"
    return Isolation(request.param)


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> PolicyCode:
    folder = tmp_path_factory.mktemp("attacks")
    labels = tmp_path_factory.mktemp("labels") / "episodes.jsonl"
    write_jsonl(labels, [small_episode(3)])
    text = ATTACKS.format(
        labels=str(labels),
        notes=str(tmp_path_factory.mktemp("notes") / "note"),
        attempts=list(ATTEMPTS.values()),
        note_attempts=list(NOTES.values()),
        bombs=list(BOMBS.values()),
        harmless=list(HARMLESS.values()),
    )
    (folder / "attacks.py").write_text(text, encoding="utf-8")
    return PolicyCode(folder=str(folder), places={name: f"attacks:{name}" for name in KINDS})


def _retained(name: str, code: PolicyCode, isolation: Isolation, steps: int = 1) -> set[int]:
    entrant = Entrant.parse(name, code, isolation)
    store, _ = PricedEpisode(small_episode(steps)).fill_store(entrant, 10_000_000)
    return store.retained()


def _succeeded(name: str, attacks: dict[str, str], code: PolicyCode, isolation: Isolation) -> list[str]:
    names = list(attacks)
    return [names[t] for t in sorted(_retained(name, code, isolation, len(names)))]


def test_no_attack_reaches_anything(attacks: PolicyCode, isolation: Isolation) -> None:
    assert _succeeded("Attempts", ATTEMPTS, attacks, isolation) == []


def test_no_run_leaves_a_note_for_the_next(attacks: PolicyCode, isolation: Isolation) -> None:
    _succeeded("Notes", NOTES, attacks, isolation)

    assert _succeeded("Notes", NOTES, attacks, isolation) == []
    assert not Path("/tmp/standfast-note").exists()
    assert not Path("/dev/shm/standfast-note").exists()


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_ends_in_its_own_process(kind: str, attacks: PolicyCode, isolation: Isolation) -> None:
    found: list[str] = []
    with suppress(BenchError):  # The process may end of it.
        found = _succeeded("Bombs", BOMBS, attacks, isolation)

    assert kind not in found


def test_the_attacks_are_real(attacks: PolicyCode) -> None:
    """Without isolation they succeed, so what stops them is the isolation."""
    assert _succeeded("Harmless", HARMLESS, attacks, Isolation.NONE) == list(HARMLESS)


def test_a_policy_may_use_threads_and_libraries(tmp_path: Path, isolation: Isolation) -> None:
    code = """
import ctypes, importlib.metadata, json, sqlite3, threading, uuid
import numpy
from helper import double
from standfast.policies import write

class Scholar:
    def select(self, step, store):
        found = []
        threads = [threading.Thread(target=lambda: found.append(double(1))) for _ in range(4)]
        for one in threads: one.start()
        for one in threads: one.join()
        assert numpy.linalg.inv(numpy.eye(3)).sum() == 3 and found == [2] * 4
        assert importlib.metadata.version("msgspec") and open(__file__).read()
        print("a policy may print")
        yield write(step)
"""
    (tmp_path / "scholar.py").write_text(code, encoding="utf-8")
    (tmp_path / "helper.py").write_text("def double(x): return 2 * x\n", encoding="utf-8")
    places = PolicyCode(folder=str(tmp_path), places={"Scholar": "scholar:Scholar"})

    assert _retained("Scholar", places, isolation) == {0}


def test_a_flood_of_forged_answers_changes_nothing_but_the_policys_own_actions(
    tmp_path: Path, isolation: Isolation
) -> None:
    code = """
import os
from standfast.policies import write

class Flood:
    def select(self, step, store):
        if step.t == 0:
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b'{"actions":[{"action":"WRITE","step":{"t":9,"observation":{},"metadata":{}}}]}\\n')
                except OSError:
                    pass
        return []
"""  # noqa: E501  # A text as a whole.
    (tmp_path / "flood.py").write_text(code, encoding="utf-8")
    places = PolicyCode(folder=str(tmp_path), places={"Flood": "flood:Flood"})
    store, _ = PricedEpisode(small_episode(12)).fill_store(Entrant.parse("Flood", places, isolation), 100_000)

    assert store.retained() == set()


def test_the_copy_of_the_code_holds_nothing_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("labels", encoding="utf-8")
    home = tmp_path / "home"
    for name in ("pkg/sub", "episodes", "results", "plain", ".git"):
        (home / name).mkdir(parents=True)
    for name in (
        "policy.py", "pkg/__init__.py", "pkg/sub/weights.json", "pkg/labels.jsonl", "episodes/__init__.py",
        "episodes/e.py", "results/__init__.py", "plain/x.py", ".git/__init__.py", "data.json", ".hidden.py",
    ):  # fmt: skip
        (home / name).write_text("", encoding="utf-8")
    (home / "link.py").symlink_to(secret)
    (home / "pkg" / "link.txt").symlink_to(secret)
    (home / "linked").symlink_to(tmp_path)
    copied = Path(staged_code(str(home)))

    assert sorted(one.relative_to(copied).as_posix() for one in copied.rglob("*") if one.is_file()) == [
        "pkg/__init__.py",
        "pkg/sub/weights.json",
        "policy.py",
    ]


def test_code_that_is_too_large_to_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.py").write_text("x = 1\n" * 10, encoding="utf-8")
    monkeypatch.setattr(sandbox, "MAX_CODE_BYTES", 10)
    with pytest.raises(BadFile, match="folder of its own"):
        staged_code(str(tmp_path))


@pytest.mark.parametrize("name", ["json", "standfast", "msgspec"])
def test_a_policy_takes_the_place_of_no_other_module(name: str, tmp_path: Path, isolation: Isolation) -> None:
    (tmp_path / f"{name}.py").write_text("class P:\n    def select(self, *_): return []\n", encoding="utf-8")
    with pytest.raises(UnknownPolicy, match="rename"):
        Entrant.parse("P", PolicyCode(folder=str(tmp_path), places={"P": f"{name}:P"}), isolation)


def test_episodes_among_installed_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("class P:\n    def select(self, *_): return []\n", encoding="utf-8")
    write_jsonl(tmp_path / "e.jsonl", [small_episode(3)])
    code = PolicyCode(folder=str(tmp_path), places={"P": "mine:P"})
    assert plan_grid([tmp_path / "e.jsonl"], policies=["P"], code=code)[1]

    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(BadFile, match="could read it there"):
        plan_grid([tmp_path / "e.jsonl"], policies=["P"], code=code)


def test_a_machine_without_bubblewrap_uses_landlock_and_one_without_either_says_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = best_isolation.__wrapped__
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert found() is Isolation.LANDLOCK
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 0)
    assert found() is Isolation.NONE
    monkeypatch.setattr(sandbox, "has_seccomp", lambda: False)
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 7)
    assert found() is Isolation.NONE
