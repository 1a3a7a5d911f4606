"""The command line: its table of commands, help, errors, interrupts."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
from click.testing import CliRunner

from standfast import __version__, fingerprint
from standfast.cli import main, output, trace


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


def test_an_error_is_printed_on_stderr_with_exit_code_2() -> None:
    result = CliRunner().invoke(main, ["canon"], input='{"a": NaN}')

    assert result.exit_code == 2
    assert result.stderr.startswith("Error: At $")
    assert "[canon_number]" in result.stderr
    assert "Traceback" not in result.output


def test_errors_follow_the_json_flag() -> None:
    result = CliRunner().invoke(main, ["canon", "--json"], input="[")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "canon_syntax"


def test_every_claim_of_the_demo_is_true(tmp_path: Path) -> None:
    printed = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path / "printed")])
    answer = json.loads(
        CliRunner().invoke(main, ["demo", "--json", "--folder", str(tmp_path / "answer")]).output
    )

    assert printed.exit_code == 0
    assert "✗" not in printed.output
    assert (answer["failed"], len(answer["claims"])) == (0, 19)
    assert all(claim["holds"] for claim in answer["claims"])


def test_every_command_can_be_loaded_and_has_the_name_it_is_called_by() -> None:
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.name == name
        assert command.help
    assert main.get_command(click.Context(main), "no-such-command") is None


def test_help_lists_every_command_once() -> None:
    listed = re.findall(r"^  ([a-z]+)  ", CliRunner().invoke(main, ["--help"]).output, re.MULTILINE)

    assert sorted(listed) == main.list_commands(click.Context(main))


def test_help_loads_no_command() -> None:
    program = (
        "import sys; from standfast.cli import main; main(['--help'], standalone_mode=False);"
        "assert not {'standfast.memory', 'apsw', 'cryptography', 'rich'} & set(sys.modules), sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert all(name in result.stdout for name in main.list_commands(click.Context(main)))


def test_json_after_a_double_dash_is_an_argument() -> None:
    usage = CliRunner().invoke(main, ["canon", "--no-such-option", "--json"])
    argument = CliRunner().invoke(main, ["canon", "--no-such-option", "--", "--json"])

    assert json.loads(usage.stdout)["error"]["code"] == "usage"
    assert argument.stdout == ""
    assert (usage.exit_code, argument.exit_code) == (2, 2)


def test_json_keeps_the_order_of_keys_and_does_not_escape_letters() -> None:
    printed = CliRunner().invoke(main, ["canon", "--json"], input='{"b": "ä", "a": 1}').output

    assert printed.startswith('{"normalization_version": "json-v1", "canonical": ')
    assert "ä" in printed


def test_exit_codes_are_the_documented_ones() -> None:
    assert (output.ANSWER_IS_NO, output.BAD_INPUT, output.INTERRUPTED) == (1, 2, 130)
    assert trace.EXIT_CODES == {"equivalent": 0, "different": 1, "erased": 1, "rejected": 2}


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
        _, complaint = process.communicate(timeout=20)

    assert process.returncode == 130
    assert complaint == b"Interrupted.\n"


def _wait_until_it_reads(pid: int) -> None:
    """Wait until the process sleeps in a read of its standard input, which is where a user would interrupt
    it.
    """
    for _ in range(2_000):
        if Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").find("pipe") >= 0:
            return
        time.sleep(0.005)
