"""The command line, used as a user would."""

import json
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import click
from click.testing import CliRunner

from standfast import __version__, fingerprint
from standfast.cli import COMMANDS, main


def test_canon_prints_the_canonical_text_and_its_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "value.json"
    file.write_text('{"b": 1.0, "a": [true]}', encoding="utf-8")
    runner = CliRunner()

    assert runner.invoke(main, ["canon", str(file)]).output == '{"a":[true],"b":1}\n'
    assert runner.invoke(main, ["canon", "--fingerprint"], input="[1]").output == fingerprint([1]) + "\n"
    assert json.loads(runner.invoke(main, ["canon", "--json"], input="[1]").output) == {
        "normalization_version": "json-v1",
        "canonical": "[1]",
        "fingerprint": fingerprint([1]),
    }


def test_a_users_mistake_is_told_in_words_with_exit_code_2() -> None:
    result = CliRunner().invoke(main, ["canon"], input='{"a": NaN}')

    assert result.exit_code == 2
    assert result.stderr.startswith("Error: At $")
    assert "[canon_number]" in result.stderr
    assert "Traceback" not in result.output


def test_errors_follow_the_json_flag() -> None:
    result = CliRunner().invoke(main, ["canon", "--json"], input="[")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "canon_syntax"


def test_the_demo_runs_to_its_end_and_every_claim_holds(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path / "told")])
    counted = json.loads(
        CliRunner().invoke(main, ["demo", "--json", "--folder", str(tmp_path / "counted")]).output
    )

    assert told.exit_code == 0
    assert "✗" not in told.output
    assert (counted["failed"], len(counted["claims"])) == (0, 14)
    assert all(claim["holds"] for claim in counted["claims"])


def test_every_command_has_its_file_and_every_file_its_command() -> None:
    folder = Path(str(import_module("standfast.cli").__file__)).parent
    parts = {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    files = {
        "import" if name == "import_" else name
        for name in parts - {"__init__", "__main__", "lazy", "options", "output", "progress"}
    }

    assert {name for name in files if name.partition("_")[0] not in files - {name}} == set(COMMANDS)
    for name in COMMANDS:
        assert main.get_command(click.Context(main), name) is not None


def test_help_loads_no_command() -> None:
    program = (
        "import sys; from standfast.cli import main; main(['--help'], standalone_mode=False);"
        "assert not {'standfast.memory', 'apsw', 'cryptography', 'rich'} & set(sys.modules), sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert all(name in told.stdout for name in COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"standfast {__version__}\n"


def test_an_interrupt_has_its_own_exit_code_and_no_traceback() -> None:
    program = "import sys; from standfast.cli import main; print('ready', flush=True); main(['canon'])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        _wait_until_it_reads(process.pid)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)

    assert process.returncode == 130
    assert told == b"Interrupted.\n"


def _wait_until_it_reads(pid: int) -> None:
    """Wait until the process sleeps in a read of its standard input, which is where a user would interrupt it."""
    for _ in range(2_000):
        if Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").find("pipe") >= 0:
            return
        time.sleep(0.005)
