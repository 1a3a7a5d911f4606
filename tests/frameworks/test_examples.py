"""The examples run, each with the real framework, in an environment that ``make frameworks`` fills."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# CrewAI asks for other versions of shared libraries than the rest.
ENVIRONMENTS = {
    "langgraph": ".venv-frameworks",
    "openai_agents": ".venv-frameworks",
    "llamaindex": ".venv-frameworks",
    "pydantic_ai": ".venv-frameworks",
    "crewai": ".venv-crewai",
}
LIGHT = ("mem0", "anthropic_memory")


def _run(python: Path, name: str, folder: Path) -> None:
    program = ROOT / "examples" / f"with_{name}.py"
    quiet = {"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true", "HOME": str(folder)}
    ran = subprocess.run(
        [str(python), str(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **quiet},
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-4_000:]


def test_every_example_is_run_by_a_test() -> None:
    names = {file.stem.removeprefix("with_") for file in (ROOT / "examples").glob("*.py")}

    assert names == {*ENVIRONMENTS, *LIGHT}


@pytest.mark.parametrize("name", LIGHT)
def test_an_example_without_a_heavy_framework_runs(name: str, tmp_path: Path) -> None:
    _run(Path(sys.executable), name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_an_example_runs_with_the_real_framework(name: str, tmp_path: Path) -> None:
    python = ROOT / ENVIRONMENTS[name] / "bin" / "python"
    if not python.exists():
        pytest.skip("the frameworks are not installed; run: make frameworks")
    _run(python, name, tmp_path)


@pytest.mark.parametrize(
    ("module", "extra"), [("llamaindex", "llamaindex"), ("pydantic_ai", "pydantic-ai"), ("crewai", "crewai")]
)
def test_without_a_framework_the_pip_command_is_named(module: str, extra: str) -> None:
    program = (
        "import sys\n"
        "for name in ('llama_index', 'pydantic_ai', 'crewai'):\n    sys.modules[name] = None\n"
        "from standfast.errors import MissingExtra\n"
        f"try:\n    import standfast.adapters.{module}\n"
        "except MissingExtra as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert f"pip install 'standfast[{extra}]'" in ran.stdout
