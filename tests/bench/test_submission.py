"""A submission is run again, in a process of its own and without labels, and compared with what it claims."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.bench import generate_against, verify_submission
from standfast.bench.sources import synthetic as adversarial
from standfast.bench.sources.synthetic import DriftSettings, Regime
from standfast.bench.submission import read_submission, submission_hash
from standfast.cli import main
from standfast.errors import BadFile, PolicyFailed, StandfastError

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


def test_a_policy_that_reads_files_fails(submission: Path) -> None:
    _replace(
        submission / "keep_the_short.py",
        "oldest = store.oldest_item()",
        f'open("{submission / "results" / "results.jsonl"}"); oldest = store.oldest_item()',
    )
    with pytest.raises(PolicyFailed, match="can't open"):
        verify_submission(str(submission), sample=1)


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
