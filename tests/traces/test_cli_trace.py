"""``standfast trace``, used as a user and as a build would."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.cli import trace as cli_trace
from standfast.traces.artifact import Trace
from tests.traces.fixture_files import FOLDER
from tests.traces.scripted import FixedMemory, Script, recorded

BASE = str(FOLDER / "base.json")


def replayed_agent(run: object) -> None:
    """The agent that the command line is given."""
    Script()(run)  # type: ignore[arg-type]  # It is a ReplayedRun, as the door hands it in.


def changed_agent(run: object) -> None:
    """The same agent after somebody changed it."""
    Script(query="other")(run)  # type: ignore[arg-type]  # As above.


def memory_at(snapshot: int) -> FixedMemory:
    """Memory as of a snapshot."""
    assert snapshot == 41
    return FixedMemory()


TOOLS = {"search": len}
NOT_A_FUNCTION = 1


def trace(*words: str) -> Result:
    return CliRunner().invoke(main, ["trace", *words])


def test_equivalent_runs_exit_with_0() -> None:
    result = trace("compare", BASE, str(FOLDER / "equivalent" / "event_ids.json"))

    assert result.exit_code == 0
    assert result.output.startswith("equivalent: ")


def test_different_runs_exit_with_1_and_tell_the_first_difference() -> None:
    result = trace("compare", BASE, str(FOLDER / "different" / "normalized_args.json"))

    assert result.exit_code == 1
    assert "→ first [normalized_args] event 1, events[1].tool_calls[0].normalized_args" in result.output
    assert "left   {'query': 'parcel status'}" in result.output


def test_a_rejected_claim_exits_with_2_and_says_why() -> None:
    result = trace("compare", BASE, str(FOLDER / "rejected" / "truncated.json"))

    assert result.exit_code == 2
    assert "[truncated] metadata.truncated" in result.output


@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob("*/*.json")), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_every_fixture_has_the_exit_code_of_its_folder(file: Path) -> None:
    result = trace("compare", "--json", BASE, str(file))
    observed = json.loads(result.output)

    assert result.exit_code == {"equivalent": 0, "different": 1, "rejected": 2}[file.parent.name]
    assert observed["verdict"] == ("erased" if file.stem == "erased_since" else file.parent.name)
    assert (observed["first"] is not None) == bool(observed["differences"])


def test_validate_tells_each_file(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.json"
    garbage.write_bytes(b"\xff")
    mixed = trace("validate", BASE, str(garbage))
    observed = json.loads(trace("validate", "--json", BASE, str(garbage)).output)

    assert trace("validate", BASE).exit_code == 0
    assert mixed.exit_code == 2
    assert "base.json: valid" in mixed.output
    assert "[unreadable]" in mixed.output
    assert [fall["code"] for fall in observed[str(garbage)]] == ["unreadable"]


def test_show_tells_events_reads_calls_and_guardrails() -> None:
    observed = trace("show", BASE).output

    for words in (
        "workflow  triage",
        "snapshot  41",
        "call  search",
        "eu-refunds, eu-postage",
        "guard pii-masked",
    ):
        assert words in observed
    assert Trace.from_document(json.loads(trace("show", "--json", BASE).output)) == recorded()


def test_show_of_what_is_no_trace_is_told_in_words() -> None:
    result = trace("show", str(FOLDER / "rejected" / "damaged.json"))

    assert result.exit_code == 2
    assert "[damaged_trace]" in result.stderr


def test_replay_runs_the_agent_that_is_named(tmp_path: Path) -> None:
    out = tmp_path / "again.json"
    memory = ["--memory", f"{__name__}:memory_at"]
    same = trace("replay", BASE, f"{__name__}:replayed_agent", *memory, "--out", str(out))
    other = trace("replay", BASE, f"{__name__}:changed_agent", *memory, "--json")

    assert (same.exit_code, same.output.splitlines()[0]) == (0, f"equivalent: {BASE} and its replay")
    assert Trace.read(out.read_bytes()).events == recorded().events
    assert other.exit_code == 1
    assert json.loads(other.output)["first"]["code"] == "normalized_args"
    assert json.loads(other.output)["agent_error"].startswith("ReplayDiverged")


@pytest.mark.parametrize(
    ("words", "observed"),
    [
        (["no-colon"], "MODULE:NAME"),
        (["no.such.module:agent"], "can't load"),
        ([f"{__name__}:nobody"], "can't load"),
        ([f"{__name__}:NOT_A_FUNCTION"], "not a function"),
        ([f"{__name__}:replayed_agent", "--tools", f"{__name__}:NOT_A_FUNCTION"], "not a dict"),
        ([f"{__name__}:replayed_agent", "--tools", f"{__name__}:TOOLS"], "snapshot 41"),
    ],
)
def test_a_mistake_in_a_replay_is_told_in_words(words: list[str], observed: str) -> None:
    result = trace("replay", BASE, *words)

    assert result.exit_code == 2
    assert observed in result.output
    assert "Traceback" not in result.output


def test_a_file_that_is_not_there_is_told_in_words() -> None:
    result = trace("compare", BASE, "no-such-file.json")

    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_long_values_are_shortened_to_one_line() -> None:
    assert cli_trace._shortened("x" * 118) == repr("x" * 118)
    assert cli_trace._shortened("x" * 119) == repr("x" * 119)[:119] + "…"
    assert len(cli_trace._shortened("x" * 500)) == 120
