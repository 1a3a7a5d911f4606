"""Where the code of a policy that is not shipped runs: which isolation this machine offers, a copy of the
code that holds nothing else, and the command that starts its process.

The process sees Python, the installed packages, Standfast, and the copy of the policy's code, all read-only.
Nothing of the policy is on this process's path, and nothing of it is loaded before the isolation is complete:
the child starts without site packages' hooks (``-S``), the user's folder (``-s``), the working directory
(``-P``) and the caller's environment, loads Standfast's part, gives everything up
(``policies/lockdown.py``), and only then loads the policy. (``-I`` would do the same, but would also ignore
the seed that keeps the order of sets the same from run to run.)
"""

import atexit
import hashlib
import importlib.util
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import msgspec

import standfast
from standfast.errors import BadFile, UnknownPolicy
from standfast.policies import PolicySpec
from standfast.policies.lockdown import Isolation, has_seccomp, landlock_version

MAX_CODE_BYTES: Final = 64 << 20
MAX_CODE_FILES: Final = 5_000
# Folders of a submission that are not code, whatever they contain.
NOT_CODE: Final = frozenset(("episodes", "results"))
_START: Final = (
    "import sys; sys.path += sys.argv[1:]; from standfast.policies.policy_process import main; main()"
)
_PROBE: Final = "import sys; sys.path += sys.argv[1:]; import msgspec; sys.exit(7)"
_PROBE_SECONDS: Final = 20.0
_SYSTEM: Final = ("/usr", "/lib", "/lib32", "/lib64", "/bin")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
_LOADER_CACHE: Final = "/etc/ld.so.cache"


class PolicyCode(msgspec.Struct, frozen=True, kw_only=True):
    """Where policies that are not installed come from.

    Example:
        ``PolicyCode(folder="submission/src", places={"KeepTheShort": "keep_the_short:KeepTheShort"})``
    """

    folder: str
    places: dict[str, str] = {}
    """The class of each policy, as ``module:Class``, by its name."""

    def place_of(self, name: str) -> str | None:
        """Return the class of a policy by its name or its class; None if it is not here."""
        return self.places.get(name, name if name in self.places.values() else None)


@cache
def best_isolation() -> Isolation:
    """Return the strongest isolation that this machine offers. It is tried, not guessed."""
    if not has_seccomp():
        return Isolation.NONE
    if _bubblewrap_works():
        return Isolation.BUBBLEWRAP
    return Isolation.LANDLOCK if landlock_version() else Isolation.NONE


def _bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    if program is None:
        return False
    command = start_command("", Isolation.BUBBLEWRAP, program=_PROBE)
    try:
        tried = subprocess.run(  # noqa: S603  # This Python, isolated.
            command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 7


def environment() -> dict[str, str]:
    """Return the whole environment of the child: nothing of the caller's."""
    return {
        # The order of sets must not differ from run to run.
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        # Threads of a library for linear algebra would count against the limit of memory.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    } | ({"SYSTEMROOT": os.environ["SYSTEMROOT"]} if "SYSTEMROOT" in os.environ else {})


@cache
def installed_folders() -> tuple[str, ...]:
    """Return the folders of Python's own and of installed packages, in the order of the path."""
    paths = sysconfig.get_paths()
    library = {paths["stdlib"], paths["platstdlib"]}
    packages = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
    own = {os.path.realpath(one) for one in library | packages if Path(one).is_dir()}
    return tuple(entry for entry in map(os.path.realpath, filter(None, sys.path)) if entry in own)


def readable_places(folder: str) -> tuple[str, ...]:
    """Return all that the child can read."""
    base = os.path.realpath(sys.base_prefix)
    libraries = [one for one in ("lib", "lib64", "bin") if (Path(base) / one).is_dir()]
    return (
        *(one for one in ("/usr/lib", "/usr/local/lib", "/lib", "/lib64") if Path(one).is_dir()),
        *(str(Path(base) / one) for one in libraries),
        *installed_folders(),
        str(Path(standfast.__file__).resolve().parent),
        *((folder,) if folder else ()),
        _LOADER_CACHE,
        *_DEVICES,
    )


def is_readable(path: str | os.PathLike[str]) -> bool:
    """Return whether a policy's process could read a file, because it lies among installed code."""
    real = os.path.realpath(path)
    roots = (*readable_places(""), *_SYSTEM, os.path.realpath(sys.base_prefix))
    return any(real == root or real.startswith(root + os.sep) for root in roots)


def start_command(folder: str, isolation: Isolation, *, program: str = _START) -> list[str]:
    """Return the command that starts the child for code in this folder."""
    package = str(Path(standfast.__file__).resolve().parent)
    python = os.path.realpath(sys.executable)
    path = [*installed_folders(), str(Path(package).parent)]
    inner = [python, "-P", "-s", "-S", "-B", "-c", program, *path]
    if isolation is not Isolation.BUBBLEWRAP:
        return inner
    wrapper = shutil.which("bwrap")
    assert wrapper is not None, "the isolation was tried before"
    command = [wrapper, "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"]
    command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "policy"]
    for place in _SYSTEM:
        if Path(place).is_symlink():
            command += ["--symlink", str(Path(place).readlink()), place]
        elif Path(place).is_dir():
            command += ["--ro-bind", place, place]
    for place in _outside_of_system((os.path.realpath(sys.base_prefix), *installed_folders(), package)):
        command += ["--ro-bind", place, place]
    command += ["--ro-bind-try", _LOADER_CACHE, _LOADER_CACHE]
    for device in _DEVICES:
        command += ["--dev-bind", device, device]
    if folder:
        command += ["--ro-bind", folder, folder]
    return [*command, "--remount-ro", "/", "--chdir", "/", "--", *inner]


def _outside_of_system(places: tuple[str, ...]) -> Iterator[str]:
    seen = list(_SYSTEM)
    for place in places:
        if not any(place == root or place.startswith(root + os.sep) for root in seen):
            seen.append(place)
            yield place


def one_line(text: object, most_chars: int = 300) -> str:
    """Return what somebody else's code or file says as one line without control characters, so that it can't
    be taken for a line of ours.
    """
    said = str(text)
    cut = said if len(said) <= most_chars else said[: most_chars - 1] + "…"
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)


def locate(spec: PolicySpec, code: PolicyCode | None) -> tuple[str, str]:
    """Return the class of a policy as ``module:Class``, and the folder of its code; empty if it is installed.

    Nothing of it is imported. A policy that is named as ``module:Class`` is looked for on our path.
    """
    if code is not None and (place := code.place_of(spec.name)) is not None:
        return place, os.path.realpath(code.folder)
    place = spec.place
    name = place.partition(":")[0].partition(".")[0]
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None:
        raise UnknownPolicy(policy=str(spec), problem=f"it can't be loaded: there is no module {name!r}")
    file = Path(os.path.realpath(found.origin))
    folder = file.parent.parent if found.submodule_search_locations is not None else file.parent
    return place, "" if str(folder) in installed_folders() else str(folder)


def code_hash(folder: str, place: str) -> str:
    """Return a hash of the code that a policy is run with; of an installed one, of its package."""
    digest = hashlib.sha256()
    if folder:
        files = code_files(Path(folder))
    else:
        found = importlib.util.find_spec(place.partition(":")[0].partition(".")[0])
        assert found is not None, "it was found before"
        assert found.origin is not None, "a package with a policy has a file"
        file = Path(found.origin)
        own = sorted(file.parent.rglob("*.py")) if found.submodule_search_locations is not None else [file]
        files = [(one.relative_to(file.parent).as_posix(), one) for one in own]
    for name, file in files:
        digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def staged_code(folder: str) -> str:
    """Return a folder with a copy of the code in this folder and nothing else of it.

    Copied are the modules and the packages in it. Left out are hidden files, links, folders that are no
    packages, the folders of a submission's episodes and results, and files of JSON lines wherever they are.
    """
    return _staged(folder, code_hash(folder, "")) if folder else ""


@cache
def _staged(folder: str, _code: str) -> str:
    """Keep the copy until this process ends; other code in the same folder has a copy of its own."""
    target = mkdtemp(prefix="standfast-policy-")
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for name, file in code_files(Path(folder)):
        place = Path(target) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    return target


def code_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the files of the modules and packages in a folder, by their names below it."""
    found: list[tuple[str, Path]] = []
    size = 0
    for file in _walk(folder):
        size += file.stat().st_size
        found.append((file.relative_to(folder).as_posix(), file))
        if size > MAX_CODE_BYTES or len(found) > MAX_CODE_FILES:
            problem = (
                f"the modules and packages in it have more than {MAX_CODE_FILES} files or"
                f" {MAX_CODE_BYTES >> 20} MB; put the policy into a folder of its own"
            )
            raise BadFile(file=str(folder), problem=problem)
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry.name.startswith("."):
            continue
        if entry.is_file() and (entry.suffix == ".py" or entry.name.endswith(tuple(EXTENSION_SUFFIXES))):
            yield entry
        elif entry.is_dir() and entry.name not in NOT_CODE and (entry / "__init__.py").is_file():
            yield from _walk_package(entry)


def _walk_package(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _walk_package(entry)
        elif entry.is_file() and entry.suffix != ".jsonl":
            yield entry
