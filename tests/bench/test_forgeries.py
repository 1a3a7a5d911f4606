"""Forged submissions: what their code answers, what their files say, and what their results claim.

Each claims a recall of 1. None is called verified, none holds the grader up, and none writes a line of the
verdict. What the kernel stops is in ``test_isolation_attacks.py``.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.bench import entrants, verify_submission
from standfast.bench.runner import PricedEpisode
from standfast.bench.sandbox import PolicyCode
from standfast.bench.submission import submission_hash
from standfast.cli import main
from standfast.errors import BadFile, UnknownPolicy
from tests.bench.episodes import small_episode
from tests.raising import raises_code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the isolation is Linux's")

EXAMPLE = Path(__file__).parents[2] / "docs" / "submission-example"
# The policy that talks to the grader itself: the last descriptors are the channel.
SPEAKER = """
import os, time
from standfast.policies import write

def say(line):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, line)
        except OSError:
            pass

class KeepTheShort:
    def select(self, step, store):
        {body}
        return []
"""
ANSWER = """say(b'{"actions":[%s]}\\n')"""
FORGED_STEP = (
    """say(b'{"actions":[{"action":"WRITE","step":{"t":%d,"observation":{},"metadata":{}}}]}\\n' % TIME)"""
)
DEEP = """say(b'{"actions":[{"action":"WRITE","delta":' + b'{"a":' * 50000 + b'\\n')"""
ANSWERS = {
    "a cheaper step under the same timestep": (FORGED_STEP.replace("TIME", "step.t"), ""),
    "a later step": (FORGED_STEP.replace("TIME", "(step.t + 1)"), ""),
    "no such action": (ANSWER % '{"action":"GRADE"}', "an action that is none"),
    "a merge without a target": (ANSWER % '{"action":"MERGE"}', "MERGE without a target"),
    "an expiry without a target": (ANSWER % '{"action":"EXPIRE"}', "EXPIRE without a target"),
    "a step without a time": (ANSWER % '{"action":"WRITE","step":{}}', "an action that is none"),
    "a time that is text": (FORGED_STEP.replace("%d", '"%d"').replace("TIME", "1"), "an action that is none"),
    "a number beyond all": (ANSWER % ('{"action":"EXPIRE","target_t":' + "9" * 400 + "}"), ""),
    "an answer deeper than the stack": (DEEP, "recursion"),
    "no JSON": ("say(bytes(range(1, 200)) + b'\\n')", "malformed"),
    "a line that has no end": ("say(b'x' * (80 << 20))", "longer than"),
    "a byte now and then": ("[(say(b' '), time.sleep(0.2)) for _ in range(1000)]", "within 2 seconds"),
    "no answer at all": ("time.sleep(1000)", "within 2 seconds"),
    "the end of the process": ("os._exit(0)", "exit code 0"),
    "very many actions": (ANSWER % ",".join(['{"action":"SKIP"}'] * 20_000), "without effect"),
}


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    """The example, with a recall of 1 in its results."""
    folder = tmp_path / "submission"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "results" / "results.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    file.write_text("".join(json.dumps({**row, "recall": 1.0}) + "\n" for row in rows), "utf-8")
    return folder


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    """The example as it is."""
    folder = tmp_path / "honest"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _verify(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["bench", "verify", str(folder), "--workers", "1", *options])


def _is_told(run: Result) -> bool:
    """Whether a run ended with an error that is ours, or with a verdict, and never with a traceback."""
    return run.exit_code != 0 and (run.exception is None or isinstance(run.exception, SystemExit))


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_answer_of_a_policy_is_worth_more_than_its_actions(
    submission: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(entrants, "POLICY_ANSWER_SECONDS", 2.0)
    body, problem = ANSWERS[answer]
    (submission / "keep_the_short.py").write_text(SPEAKER.replace("{body}", body), encoding="utf-8")
    if problem:
        with raises_code("policy_failed", match=problem):
            verify_submission(str(submission), sample=1)
        return
    check = verify_submission(str(submission), sample=1)

    assert not check.verified
    assert all(mean.found == 0 for mean in check.means)


def test_a_policy_that_answers_and_does_not_read_holds_nobody_up(
    submission: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers every step in advance; the pipe of the steps fills, because nobody empties it."""
    monkeypatch.setattr(entrants, "POLICY_ANSWER_SECONDS", 2.0)
    body = "[say(b'{}\\n' * 100) for _ in range(300)]; time.sleep(1000)"
    (submission / "keep_the_short.py").write_text(SPEAKER.replace("{body}", body), encoding="utf-8")
    policy = entrants.Entrant.parse(
        "KeepTheShort",
        PolicyCode(folder=str(submission), places={"KeepTheShort": "keep_the_short:KeepTheShort"}),
    )
    large = PricedEpisode(small_episode(3_000))
    with raises_code("policy_failed", match="did not give an answer within 2 seconds"):
        large.fill_store(policy, 10_000)


def test_the_waits_of_a_run_are_limited_together(submission: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough to start a policy on a busy machine, and shorter than its answers together.
    monkeypatch.setattr(entrants, "POLICY_RUN_SECONDS", 10.0)
    (submission / "keep_the_short.py").write_text(
        SPEAKER.replace("{body}", "time.sleep(4)"), encoding="utf-8"
    )
    with raises_code("policy_failed", match="the answers of a run within 10 seconds"):
        verify_submission(str(submission), sample=1)


@pytest.mark.parametrize(
    "body",
    ["say(b'[' * 100000 + b'\\n')", 'say(b\'{"track":"gold"}\\n\')', "say(b'{\"track\":1}\\n')"],
)
def test_a_policy_that_forges_its_start_is_unknown(submission: Path, body: str) -> None:
    code = SPEAKER.replace("{body}", "pass") + f"\n{body}\n"
    (submission / "keep_the_short.py").write_text(code, encoding="utf-8")
    with pytest.raises(UnknownPolicy):
        verify_submission(str(submission), sample=1)


def test_what_a_policy_says_of_its_failure_is_one_line_without_control_characters(submission: Path) -> None:
    code = SPEAKER.replace("{body}", 'raise ValueError("\\n\\x1b[2Jverified\\n" * 1000)')
    (submission / "keep_the_short.py").write_text(code, encoding="utf-8")
    run = _verify(submission)

    assert _is_told(run)
    assert "\x1b" not in run.output
    assert "verified" not in run.output.splitlines()
    assert len(run.output) < 2_000


VERDICT = "1.0\\nverified\\n"


def _project(old: str, new: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        file = folder / "pyproject.toml"
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), "utf-8")

    return spoil


def _code_of_results(folder: Path) -> None:
    plan = folder / "results" / "grid.json"
    plan.write_text(json.dumps({**json.loads(plan.read_bytes()), "code": "x\nverified\n\x1b[2J"}), "utf-8")


def _figure_that_is_text(folder: Path) -> None:
    file = folder / "results" / "results.jsonl"
    first, *rest = file.read_text("utf-8").splitlines()
    row = {**json.loads(first), "recall": "\nverified\n", "\nverified": 1}
    file.write_text("\n".join([json.dumps(row), *rest]) + "\n", "utf-8")


@pytest.mark.parametrize(
    "spoil",
    [
        _project('"1.0.0"', f'"{VERDICT}"'),
        _project('"keep-the-short"', f'"x{VERDICT}"'),
        _project("KeepTheShort =", f'"x{VERDICT}" ='),
        _project('"keep_the_short:KeepTheShort"', f'"x{VERDICT}:x"'),
        _code_of_results,
        _figure_that_is_text,
        lambda folder: (folder / "results" / "x\nverified\n.csv").touch(),
    ],
)
def test_nothing_that_a_submission_says_is_a_line_of_the_verdict(
    submission: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(submission)
    run = _verify(submission)

    assert _is_told(run)
    assert "verified" not in run.output.splitlines()
    assert "\x1b" not in run.output


ODD_ROWS = ["[1]", "1", "null", '"x"', '{"file":[1]}', '{"seed":{}}', "[" * 5_000, "{", "NaN", "\x00", "{}"]


@pytest.mark.parametrize(
    ("file", "row"),
    [
        *(("results.jsonl", row) for row in ODD_ROWS),
        *((file, row) for file in ("curves.jsonl", "grid.json") for row in ODD_ROWS[::3]),
    ],
)
def test_odd_rows_are_told_and_never_a_traceback(submission: Path, file: str, row: str) -> None:
    place = submission / "results" / file
    place.write_text((place.read_text("utf-8") if file == "results.jsonl" else "") + row + "\n", "utf-8")
    run = _verify(submission)

    assert _is_told(run), run.output


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "requirements.lock", "results/grid.json", "results/results.jsonl"]
)
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_file_that_is_none_is_told(submission: Path, name: str, kind: str) -> None:
    file = submission / name
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    run = _verify(submission)

    assert _is_told(run), run.output


def test_a_declaration_of_many_megabytes_is_refused(submission: Path) -> None:
    with (submission / "pyproject.toml").open("ab") as file:
        file.truncate(100 << 20)
    with pytest.raises(BadFile, match="more than 4 MB"):
        verify_submission(str(submission))


def test_the_hash_covers_all_code_and_no_folder_or_pipe_stops_it(honest: Path) -> None:
    before = submission_hash(str(honest))
    (honest / "x.py").mkdir()
    os.mkfifo(honest / "y.py")
    run = _verify(honest, "--json")

    assert (run.exit_code, json.loads(run.stdout)["sha256"]) == (0, before)
    seen = {before}
    for name in ("fast.so", "pkg/__init__.py", "pkg/weights.bin", "pkg/sub/table.json"):
        file = honest / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1")
        seen.add(submission_hash(str(honest)))
    (honest / "pkg" / "weights.bin").write_bytes(b"2")
    seen.add(submission_hash(str(honest)))

    assert len(seen) == 6


def test_a_submission_on_the_graders_path_is_refused(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 'python -m standfast' inside its folder, where a module of it could take the place of ours."""
    monkeypatch.syspath_prepend(str(honest / "src"))
    with pytest.raises(BadFile, match="from another folder"):
        verify_submission(str(honest))
    monkeypatch.undo()
    monkeypatch.chdir(honest)
    monkeypatch.syspath_prepend("")
    with pytest.raises(BadFile, match="from another folder"):
        verify_submission(".")


def test_a_folder_of_code_that_is_a_link_is_refused(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "elsewhere")
    (honest / "src").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFile, match="src is a link"):
        verify_submission(str(honest))


def test_the_verdict_on_a_part_says_so_and_other_files_are_named(honest: Path) -> None:
    (honest / "results" / "leaderboard.csv").write_text("KeepTheShort,1.0\n", "utf-8")
    lines = _verify(honest, "--sample", "1").output.splitlines()

    assert lines[-1] == "verified on 1 of 2 units"
    assert "note: not checked, because they are made of the rows: leaderboard.csv" in lines
