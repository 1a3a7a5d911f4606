"""``standfast vectors`` and ``recall --controller hybrid-v1`` on the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _run(*arguments: str, embedder: str = "static") -> Result:
    return CliRunner().invoke(main, arguments, env={"STANDFAST_EMBEDDER": embedder})


def test_vectors_are_counted_filled_in_and_used() -> None:
    _run("init")
    _run("remember", "Ada adopted a kitten last spring.", "--source", "doc:diary", embedder="none")
    counted = _run("vectors", "status", "--json")
    assert (counted.exit_code, json.loads(counted.output)["missing"]) == (1, 1)
    assert "0 of 1 records have a vector\nNext: standfast vectors fill" in _run("vectors", "status").output

    filled = _run("vectors", "fill")
    assert (filled.exit_code, filled.output) == (0, "static-minilm/1/128: 1 of 1 records have a vector\n")
    assert _run("vectors", "status").exit_code == 0
    assert "kitten" in _run("recall", "cat", "--controller", "hybrid-v1").output
    explained = json.loads(_run("recall", "cat", "--controller", "hybrid-v1", "--explain", "--json").output)
    assert "similarity" in json.dumps(explained)
    assert _run("verify").exit_code == 0


def test_migrating_says_what_to_do_next_and_a_wrong_name_is_refused() -> None:
    _run("init", embedder="none")
    migrated = _run("vectors", "migrate", "--to", "static", embedder="none")
    assert 'Next: set embedder = "static"' in migrated.output
    refused = _run("vectors", "migrate", "--to", "nonsense")
    assert (refused.exit_code, "local:FOLDER" in refused.output) == (2, True)
    assert _run("vectors", "status", embedder="none").exit_code == 2
