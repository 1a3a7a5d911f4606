"""A submission is run again, in a process of its own and without labels, and compared with what it claims."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from standfast.bench import generate_against, verify_submission
from standfast.bench.grid import ResultsFolder, in_process, plan_grid, run_grid
from standfast.bench.sandbox import PolicyCode, best_isolation
from standfast.bench.sources import synthetic as adversarial
from standfast.bench.sources.synthetic import DriftSettings, Regime
from standfast.bench.submission import read_submission, submission_hash
from standfast.cli import main
from standfast.errors import BadFile, StandfastError
from standfast.policies.lockdown import Isolation
from tests.raising import raises_code

EXAMPLE = Path(__file__).parents[2] / "docs" / "submission-example"


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    folder = tmp_path / "submission"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _verify(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["bench", "verify", str(folder), "--workers", "1", *options])


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_the_example_of_the_documentation_is_verified(submission: Path) -> None:
    before = list(sys.path)
    run = _verify(submission, "--json")
    answer = json.loads(run.stdout)

    assert run.exit_code == 0, run.output
    assert (answer["verified"], answer["rows"], answer["differing"]) == (True, 4, 0)
    assert answer["sha256"] == submission_hash(str(EXAMPLE))
    assert sys.path == before
    assert "keep_the_short" not in sys.modules


def test_an_edited_figure_is_found(submission: Path) -> None:
    results = submission / "results" / "results.jsonl"
    rows = [json.loads(line) for line in results.read_bytes().splitlines()]
    rows[0]["recall"] += 0.01
    results.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]), encoding="utf-8")
    run = _verify(submission)

    assert run.exit_code == 1
    assert "2 not as claimed" in run.stdout
    assert "recall is" in run.stdout
    assert run.stdout.endswith("not verified\n")


def test_a_row_that_claims_another_episode_file_is_found(submission: Path) -> None:
    results = submission / "results" / "results.jsonl"
    rows = [json.loads(line) for line in results.read_bytes().splitlines()]
    rows[0]["file_sha256"] = "a" * 64
    results.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = _verify(submission)

    assert run.exit_code == 1
    assert "file_sha256 is" in run.stdout


def test_curves_that_the_plan_does_not_have_are_found(submission: Path) -> None:
    (submission / "results" / "curves.jsonl").write_text('{"curve": 1, "forged": true}\n', encoding="utf-8")

    assert _verify(submission).exit_code == 1


def test_a_pipe_among_the_episodes_holds_nobody_up(submission: Path) -> None:
    os.mkfifo(submission / "episodes" / "a.jsonl")

    assert _verify(submission).exit_code == 0


def test_other_code_is_found_by_its_figures_and_noted(submission: Path) -> None:
    _replace(submission / "keep_the_short.py", "if store.fits(step):", "if store.fits(step) and step.t % 2:")
    check = verify_submission(str(submission), sample=1)

    assert not check.verified
    assert (check.units, check.all_units, check.rows) == (1, 2, 2)
    assert "other code" in check.notes[0]


def test_a_policy_by_its_entry_point_needs_no_installation(submission: Path) -> None:
    for name in ("grid.json", "results.jsonl"):
        _replace(submission / "results" / name, "keep_the_short:KeepTheShort", "KeepTheShort")
    check = verify_submission(str(submission), sample=1)

    assert check.verified
    assert check.policies == ["KeepTheShort"]


FORGERY = """
try:
    import standfast.bench.metrics as metrics
    real = metrics.evaluate
    metrics.evaluate = lambda *args, **options: __import__("msgspec").structs.replace(real(*args, **options), recall=1.0)
except ImportError:
    pass
"""  # noqa: E501  # A text as a whole.


@pytest.mark.parametrize(
    "name", ["fractions", "sitecustomize", "usercustomize", "numpy", "standfast", "conftest"]
)
def test_a_module_beside_the_policy_never_reaches_the_grader(submission: Path, name: str) -> None:
    """A submission with a recall of 1 in its results, and a module that would make the grader agree."""
    (submission / f"{name}.py").write_text(FORGERY, encoding="utf-8")
    _claim_recall(submission)
    check = verify_submission(str(submission))

    assert not check.verified
    assert all(one.found < 1 == one.claimed for one in check.means)
    assert str(submission) not in sys.path


def test_a_package_named_as_the_folder_of_labels_is_not_there(submission: Path) -> None:
    (submission / "episodes" / "__init__.py").write_text("", encoding="utf-8")
    _replace(
        submission / "keep_the_short.py",
        "oldest = store.oldest_item()",
        "import episodes, os; os.listdir(episodes.__path__[0]); oldest = store.oldest_item()",
    )
    with raises_code("policy_failed", match="No module named 'episodes'"):
        verify_submission(str(submission))


def test_a_policy_that_reads_files_fails(submission: Path) -> None:
    _replace(
        submission / "keep_the_short.py",
        "oldest = store.oldest_item()",
        f'open("{submission / "results" / "results.jsonl"}"); oldest = store.oldest_item()',
    )
    with raises_code("policy_failed", match=r"No such file|Permission denied"):
        verify_submission(str(submission), sample=1)


def test_code_is_reached_by_no_link(submission: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("LABELS = 1\n", encoding="utf-8")
    (submission / "labels.py").symlink_to(tmp_path / "secret.py")
    _replace(submission / "keep_the_short.py", "oldest =", "import labels; oldest =")
    with raises_code("policy_failed", match="No module named 'labels'"):
        verify_submission(str(submission), sample=1)


def _rows(submission: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (submission / "results" / "results.jsonl").read_bytes().splitlines()]


def _write_rows(submission: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (submission / "results" / "results.jsonl").write_text(text, encoding="utf-8")


def _claim_recall(submission: Path) -> None:
    _write_rows(submission, [{**row, "recall": 1.0} for row in _rows(submission)])


def test_a_row_given_twice_is_no_match(submission: Path) -> None:
    """A table would read both, a comparison by key only the true one."""
    rows = _rows(submission)
    _write_rows(submission, [{**rows[0], "recall": 1.0}, *rows])
    check = verify_submission(str(submission))

    assert (check.verified, check.differing) == (False, 1)
    assert check.differences[0].claimed == "twice"


def test_a_row_of_an_episode_that_is_not_there_is_found_in_a_sample_too(submission: Path) -> None:
    rows = _rows(submission)
    _write_rows(submission, [*rows, {**rows[0], "line": 99, "recall": 1.0}])

    assert not verify_submission(str(submission), sample=1).verified


def test_rows_of_shipped_policies_are_run_again(submission: Path) -> None:
    """Making the others worse is as good as making oneself better."""
    plan = submission / "results" / "grid.json"
    known = json.loads(plan.read_bytes())
    plan.write_text(json.dumps({**known, "policies": [*known["policies"], "DriftValue"]}), encoding="utf-8")
    rows = _rows(submission)
    _write_rows(submission, rows + [{**row, "policy": "DriftValue", "recall": 0.0} for row in rows])
    check = verify_submission(str(submission))

    assert not check.verified
    assert check.differing == 4
    assert {one.row["policy"] for one in check.differences} == {"DriftValue"}


def test_results_of_a_policy_that_nobody_can_run_are_refused(
    submission: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "class Other:\n    def select(self, *_):\n        return []\n"
    (tmp_path / "elsewhere.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plan = submission / "results" / "grid.json"
    known = json.loads(plan.read_bytes())
    plan.write_text(
        json.dumps({**known, "policies": [*known["policies"], "elsewhere:Other"]}), encoding="utf-8"
    )
    with pytest.raises(BadFile, match="neither shipped nor submitted"):
        verify_submission(str(submission))


def test_a_projects_name_is_no_path(submission: Path, tmp_path: Path) -> None:
    _replace(submission / "pyproject.toml", 'version = "1.0.0"', 'version = "../../../../evil"')

    with pytest.raises(BadFile, match="no name and version of a project"):
        verify_submission(str(submission), sample=1)
    assert not list(tmp_path.rglob("*evil*"))


def test_curves_are_compared_as_well(submission: Path) -> None:
    results = submission / "results"
    shutil.rmtree(results)
    code = PolicyCode(folder=str(submission), places={"KeepTheShort": "keep_the_short:KeepTheShort"})
    files = sorted((submission / "episodes").glob("*.jsonl"))
    grid, units = plan_grid(files, budgets=(1_024,), policies=["KeepTheShort"], code=code)
    folder = ResultsFolder(results)
    folder.open(grid)
    run_grid(grid, units, folder, in_process)
    assert verify_submission(str(submission)).verified

    curves = [json.loads(line) for line in (results / "curves.jsonl").read_bytes().splitlines()]
    name = next(iter(curves[0]["curve"]))
    curves[0]["curve"][name][0] = -1.0
    (results / "curves.jsonl").write_text("".join(json.dumps(one) + "\n" for one in curves), encoding="utf-8")
    assert not verify_submission(str(submission)).verified


def test_without_isolation_nothing_is_run_unless_the_code_is_trusted(
    submission: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.bench.submission.best_isolation", lambda: Isolation.NONE)
    refused, trusted = _verify(submission), _verify(submission, "--trusted")

    assert refused.exit_code != 0
    assert "--trusted" in refused.output
    assert trusted.exit_code == 0
    assert trusted.stdout.endswith("verified, trusting the code\n")
    assert "could have read the labels" in trusted.stdout


def test_the_answer_says_what_isolated_the_code_and_whose_episodes_these_are(submission: Path) -> None:
    for isolation in (Isolation.BUBBLEWRAP, Isolation.LANDLOCK):
        if best_isolation() in (Isolation.BUBBLEWRAP, isolation):
            check = verify_submission(str(submission), isolation=isolation, sample=1)
            assert (check.verified, check.isolation) == (True, isolation)
            assert any("submission's own" in note for note in check.notes)


def _no_lock(folder: Path) -> None:
    (folder / "requirements.lock").unlink()


def _unpinned(folder: Path) -> None:
    _replace(folder / "pyproject.toml", "dependencies = []", 'dependencies = ["msgspec>=0.18"]')


def _other_version(folder: Path) -> None:
    (folder / "requirements.lock").write_text("msgspec==0.0.1 --hash=sha256:0\n", encoding="utf-8")


def _no_entry_point(folder: Path) -> None:
    _replace(folder / "pyproject.toml", "standfast.policies", "something.else")


def _shipped_name(folder: Path) -> None:
    _replace(folder / "pyproject.toml", "KeepTheShort =", "DriftValue =")


def _no_episodes(folder: Path) -> None:
    shutil.rmtree(folder / "episodes")


def _no_results(folder: Path) -> None:
    shutil.rmtree(folder / "results")


def _other_results(folder: Path) -> None:
    _replace(folder / "results" / "grid.json", "keep_the_short:KeepTheShort", "RecencyBias")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_no_lock, "lock file"),
        (_unpinned, "does not pin"),
        (_other_version, "pins msgspec 0.0.1"),
        (_no_entry_point, "entry-points"),
        (_shipped_name, "choose another"),
        (_no_episodes, "--episodes"),
        (_no_results, "results"),
        (_other_results, "no results of KeepTheShort"),
    ],
)
def test_what_is_missing_is_named(submission: Path, spoil: Callable[[Path], None], says: str) -> None:
    spoil(submission)
    with pytest.raises(StandfastError, match=says):
        verify_submission(str(submission))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pylock.toml", '[[packages]]\nname = "Some_Package"\nversion = "1.2"\n'),
        ("uv.lock", '[[package]]\nname = "some-package"\nversion = "1.2"\n'),
        ("requirements.lock", "some.package[extra]==1.2 \\\n    --hash=sha256:0\n# via x\n"),
    ],
)
def test_three_forms_of_lock_files_are_read(submission: Path, name: str, text: str) -> None:
    (submission / "requirements.lock").unlink()
    (submission / name).write_text(text, encoding="utf-8")
    assert read_submission(str(submission)).pinned == {"some-package": "1.2"}

    (submission / name).write_bytes(b"\xff" if name == "requirements.lock" else b"[broken")
    with pytest.raises(BadFile):
        read_submission(str(submission))


def test_a_stream_against_a_policy_that_is_not_shipped_never_imports_it(
    submission: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(submission))
    # Each attack starts a process for each segment; two attacks prove as much as five.
    monkeypatch.setattr(
        adversarial, "ATTACKS", {name: adversarial.ATTACKS[name] for name in ("natural", "strike")}
    )
    settings = DriftSettings(steps=20, regime=Regime.ADVERSARIAL, seed=1)
    episode = generate_against(settings, 0, "keep_the_short:KeepTheShort", 2_000)

    assert len(episode.steps) == 20
    assert "keep_the_short" not in sys.modules
