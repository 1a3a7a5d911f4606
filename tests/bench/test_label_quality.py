"""The labelling rule is measured against a sample that was labelled by hand."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from standfast.bench import changelog_episode, write_jsonl
from standfast.bench.sources import labelling
from standfast.bench.sources.conversations import SpokenMessage, kind_of_message
from standfast.bench.sources.labelling import (
    CLASS_OF_KIND,
    DriftClass,
    agreement,
    hand_labels,
    label_report,
    rule_answers,
    step_id,
)
from standfast.bench.sources.markdown import ChangelogNote, kind_of_note, section_changes
from standfast.cli import main

B, A, M = DriftClass.BREAKING, DriftClass.ADDITIVE, DriftClass.MINOR


def test_the_sample_is_large_and_covers_every_format_and_half() -> None:
    sample = hand_labels()

    assert len({one.id for one in sample}) == len(sample) >= 600
    assert {one.half for one in sample} == set(labelling.HALVES)
    assert {one.format for one in sample} == {
        "asyncapi",
        "changelog",
        "conversation",
        "docs",
        "graphql",
        "json-schema",
        "openapi",
        "protobuf",
    }
    assert sum(one.second is not None for one in sample) >= 200


def test_precision_recall_and_kappa_are_those_of_the_textbook() -> None:
    pairs = [(B, B)] * 20 + [(A, B)] * 5 + [(B, A)] * 10 + [(A, A)] * 15
    found = agreement(pairs)

    assert (found.steps, found.critical) == (50, 30)
    assert found.precision == 0.8
    assert found.recall == pytest.approx(2 / 3)
    assert found.kappa == pytest.approx(0.4)
    assert found.class_kappa == pytest.approx(0.4)
    assert found.kappa_interval[0] < 0.4 < found.kappa_interval[1]
    assert agreement([(A, A), (A, M)]).kappa == 1.0
    assert agreement([(A, A), (A, M)]).class_kappa == 0.0


def test_the_recorded_figures_are_those_that_the_documentation_gives() -> None:
    report, before = label_report(hand_labels()), label_report(hand_labels(), before=True)

    held, first = report["held_out"], before["held_out"]
    assert [round(x, 2) for x in (held.precision, held.recall, held.kappa)] == [0.89, 0.97, 0.91]
    assert [round(x, 2) for x in (first.precision, first.recall, first.kappa)] == [0.67, 0.88, 0.68]
    assert [round(x, 2) for x in (report["docs"].precision, report["docs"].kappa)] == [0.4, 0.37]
    assert round(report["second pass"].kappa, 2) == 0.98
    assert (report["blind pass"].steps, round(report["blind pass"].kappa, 2)) == (126, 0.89)


def test_answers_are_computed_anew_from_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "## 1.0.0\n- Added a thing\n- Renamed the other thing\n"
    episode = changelog_episode(text, source="s", name="n")
    file = tmp_path / "episode.jsonl"
    write_jsonl(file, [episode])
    ids = [step_id(step.observation) for step in episode.steps]
    one = hand_labels()[0]
    sample = [
        msgspec.structs.replace(one, id=ids[0], label=A, second=A),
        msgspec.structs.replace(one, id=ids[1], label=B, second=A),
        one,
    ]
    monkeypatch.setattr(labelling, "hand_labels", lambda: sample)
    run = CliRunner().invoke(main, ["bench", "labels", str(file), "--json"])

    assert rule_answers([file]) == {ids[0]: A, ids[1]: B}
    assert json.loads(run.stdout)["all"]["steps"] == 2
    assert json.loads(run.stdout)["all"]["kappa"] == 1.0


def test_the_command_prints_a_table_and_refuses_other_episodes(tmp_path: Path) -> None:
    file = tmp_path / "episode.jsonl"
    write_jsonl(file, [changelog_episode("## 1.0.0\n- Added a thing\n", source="s", name="n")])
    run = CliRunner().invoke(main, ["bench", "labels"])

    assert run.exit_code == 0
    assert "held out" in run.stdout
    assert CliRunner().invoke(main, ["bench", "labels", str(file)]).exit_code != 0
    assert CliRunner().invoke(main, ["bench", "labels", str(file), "--before"]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "section", "drift"),
    [
        ("stop_sign: [BREAKING] Make it so", "Changed: Metrics", "breaking"),
        ("rename line to lines", "Changed", "breaking"),
        ("Rename helpers of the tests", "", "noise"),
        ("Change type of `amount` from `int` to `str`", "", "breaking"),
        ("Change `meter` to be required", "", "breaking"),
        ("The minimum Python versions are now 3.4", "", "breaking"),
        ("Removed `iso_country` as required field", "", "minor"),
        ("drop gzip requirement", "", "minor"),
        ("`Intent.Params`", "Remove `request` from:", "breaking"),
        ("Scan all files", "tada: New Features", "additive"),
        ("Some text", "bug: Bugfixes", "minor"),
    ],
)
def test_what_the_development_half_taught_about_changelogs(text: str, section: str, drift: str) -> None:
    note = ChangelogNote(version="1", date=None, heading="", section=section, text=text, raw=text)

    assert CLASS_OF_KIND[kind_of_note(note)] == drift


def test_what_the_development_half_taught_about_sections_and_messages() -> None:
    words = " ".join(f"word{number}" for number in range(30))

    def kind(text: str) -> str:
        return kind_of_message(SpokenMessage(conversation="1", position=0, speaker="x", text=text))

    assert section_changes({"a": "`string`"}, {"b": words}) == {"b": ("section_added",), "a": ("edited",)}
    assert section_changes({"a": f"{words} [x](one)"}, {"a": f"{words} [x](two)"}) == {"a": ("formatted",)}
    assert section_changes({"a": "one two three four five"}, {"a": "six"}) == {"a": ("edited_major",)}
    assert section_changes({"a": f"{words} `run`"}, {"a": words.upper()}) == {"a": ("rewritten",)}
    assert kind("Can I get a large one?") == "stated"
    assert kind("Can I get your name?") == "asked"
    assert kind("We don't have that, would you like another?") == "stated"
    assert kind("I'll send it off.") == "said"
    assert kind("Yes, it looks right to me.") == "acknowledged"
