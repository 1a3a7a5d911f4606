"""Builds the distribution into dist/ and checks it: metadata, contents, and a fresh install that runs the
README.

python tools/release.py
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

import click
from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
# Of the sdist, what its root folder may hold.
SDIST = {
    "src",
    "tests",
    "docs",
    "deploy",
    "examples",
    "plugins",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
}


def main() -> None:
    """Build, check and say what was built."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT))
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    version = check_wheel(wheel)
    check_sdist(sdist, version)
    for built in (wheel, sdist):
        check_install(built, version)
        click.echo(
            f"{built.name}: {built.stat().st_size:,} bytes; installed alone, it runs the README's lines"
        )


def run(*command: str, folder: Path = ROOT) -> str:
    """Run a program and return what it prints; its failure is this program's."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603  # Our own commands.
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_wheel(wheel: Path) -> str:
    """The wheel has every tracked file of the package and nothing else, and its metadata is valid."""
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if not name.endswith("/")}
        [info] = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        metadata = Metadata.from_email(opened.read(f"{info}/METADATA"), validate=True)
    tracked = run("git", "ls-files", "src/standfast").splitlines()
    wanted = {name.removeprefix("src/") for name in tracked}
    packed = {name for name in names if not name.startswith(info)}
    require(packed == wanted, f"the wheel differs from src: {sorted(packed ^ wanted)[:10]}")
    require(f"{info}/licenses/LICENSE" in names, "the wheel has no LICENSE")
    require(metadata.description_content_type == "text/markdown", "the README is not shown as Markdown")
    return str(metadata.version)


def check_sdist(sdist: Path, version: str) -> None:
    """The sdist has the folders that it promises and nothing else."""
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    tops = {name.partition("/")[0] for name in names} - {"", "PKG-INFO", "pyproject.toml", ".gitignore"}
    require(tops == SDIST, f"the sdist holds {sorted(tops)}")
    require(sdist.name == f"standfast-{version}.tar.gz", "wheel and sdist differ in their version")


def check_install(built: Path, version: str) -> None:
    """Installed into a new virtualenv without extras, the first example of the README runs."""
    example = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        locked = str(ROOT / "requirements" / "run.txt")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", locked)
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(built))
        answer = run(python, "-c", example[0], folder=folder)
        require("German" in answer, f"the README's lines answered: {answer}")
        shown = run(str(folder / "venv" / "bin" / "standfast"), "--version", folder=folder)
        require(shown.strip() == f"standfast {version}", f"the command says: {shown}")


def require(holds: bool, problem: str) -> None:
    """End the program with a message if something does not hold."""
    if not holds:
        raise SystemExit(problem)


if __name__ == "__main__":
    main()
