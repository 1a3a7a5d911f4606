"""``standfast profile`` and ``standfast conflicts``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from tests.govern import openssh


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def told() -> None:
    for text in ("I live in Munich.", "I moved to Lisbon."):
        assert call("remember", text, "--scope", "user/ada", "--as-human", "--store", "a.db").exit_code == 0


def test_a_profile_is_printed_with_what_was_left_out() -> None:
    told()
    shown = call("profile", "--scope", "user/ada", "--explain", "--store", "a.db")

    assert shown.exit_code == 0
    assert "I moved to Lisbon." in shown.output
    assert "I live in Munich." not in shown.output
    assert "said later: m-" in shown.output
    assert call("profile", "--scope", "user/bob", "--store", "a.db").exit_code == 1
    assert json.loads(call("profile", "--scope", "user/ada", "--json", "--store", "a.db").output)[
        "package_hash"
    ]


def test_a_conflict_is_listed_rehearsed_and_settled() -> None:
    told()
    listed = json.loads(call("conflicts", "list", "--scope", "user/ada", "--json", "--store", "a.db").output)
    (conflict,) = listed["conflicts"]
    kept = conflict["entries"][0]["memory_id"]
    words = ("conflicts", "settle", conflict["conflict_id"], "--keep", kept, "--reason", "a move")
    place = ("--scope", "user/ada", "--store", "a.db")

    assert "would end" in call(*words, "--as-human", "--rehearse", *place).output
    assert "1 conflict" in call("conflicts", "list", *place).output
    assert "ended" in call(*words, "--as-human", *place).output
    assert "0 conflicts" in call("conflicts", "list", *place).output


def test_all_are_settled_but_for_what_only_a_person_may_end() -> None:
    told()
    refused = call("conflicts", "settle", "--all", "--reason", "tidy", "--scope", "*", "--store", "a.db")

    assert refused.exit_code == 1
    assert "not settled" in refused.output
    assert call("conflicts", "settle", "--reason", "tidy").exit_code == 2


def test_what_is_proposed_is_accepted_by_a_signature(tmp_path: Path) -> None:
    told()
    key = openssh.key_file(tmp_path, openssh.private_key("alice"))
    signer = f'alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}\n'
    (tmp_path / "allowed_signers").write_text(signer)
    (tmp_path / "standfast.toml").write_text('store = "a.db"\nsigners = "allowed_signers"\n')
    place = ("--scope", "user/ada")
    proposed = call("conflicts", "settle", "--all", "--propose", "--reason", "newest holds", *place)
    waits = call("conflicts", "list", *place)
    (named,) = json.loads(call("approvals", "list", "--json").output)["proposals"]
    accepted = call("approvals", "accept", named["proposal_id"], "--key", str(key), "--yes")

    assert "waits for a person" in proposed.output
    assert "1 conflict" in waits.output
    assert accepted.exit_code == 0, accepted.output
    assert "0 conflicts" in call("conflicts", "list", *place).output
    assert "Munich" not in call("profile", *place).output
