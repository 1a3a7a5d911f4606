"""Episode files are read strictly and written the same to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import InvalidValue, limits
from standfast.bench import episodes as episodes_module
from standfast.bench.episodes import (
    MANIFEST,
    Episode,
    check_manifest,
    episode_line,
    file_hash,
    load_jsonl,
    locate_episodes,
    manifest_of,
    read_episode,
    write_jsonl,
)
from standfast.errors import BadFile
from tests.bench.episodes import DATA, REAL, REFERENCE, small_episode
from tests.raising import raises_code

STEP = {"t": 0, "observation": {"api": "a"}, "metadata": {}}
GOOD = {"steps": [STEP], "labels": {"critical_steps": [0], "utility_by_step": {"0": 1.5}}}


def _text(**labels: Any) -> str:
    return json.dumps({"steps": [STEP], "labels": {**GOOD["labels"], **labels}})  # type: ignore[dict-item]


def test_written_episodes_are_read_back_and_written_the_same(tmp_path: Path) -> None:
    episodes = [small_episode(30, number=number) for number in range(3)]
    write_jsonl(tmp_path / "a.jsonl", episodes)
    write_jsonl(tmp_path / "b.jsonl", load_jsonl(tmp_path / "a.jsonl"))

    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert [episode_line(episode) for episode in load_jsonl(tmp_path / "a.jsonl")] == [
        episode_line(e) for e in episodes
    ]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"steps": [], "labels": {}}', "has no steps"),
        ('{"steps": {}, "labels": {}}', "steps must be a list"),
        ('{"steps": [], "labels": {}, "more": 1}', "only"),
        ('{"steps": [], "steps": [], "labels": {}}', "the same key twice"),
        ('{"steps": [{"t": 0}], "labels": {}}', "step 0: observation: it is missing"),
        ('{"steps": [{"t": -1, "observation": 1}], "labels": {}}', "whole number from 0"),
        ('{"steps": [{"t": 0.5, "observation": 1}], "labels": {}}', "step 0: t: it must be `int`"),
        (
            '{"steps": [{"t": 0, "observation": 1, "labels": 1}], "labels": {}}',
            "step 0: .*there is no field labels",
        ),
        (
            '{"steps": [{"t": 0, "observation": 1}, {"t": 0, "observation": 2}], "labels": {}}',
            "timestep 0 is given twice",
        ),
        (
            '{"steps": [{"t": 4, "observation": 1}, {"t": 2, "observation": 2}], "labels": {}}',
            "comes after 4",
        ),
        ('{"steps": [{"t": 0, "observation": NaN}], "labels": {}}', "not JSON"),
        ('{"steps": [{"t": 0, "observation": 1e999}], "labels": {}}', "not JSON"),
        ('{"steps": [{"t": 0, "observation": 1, "metadata": {"priority": 2}}], "labels": {}}', "priority"),
        (_text(critical_steps=[7]), "critical_steps must be a list of timesteps"),
        (_text(critical_steps=[True]), "Expected `int`.*critical_steps"),
        (_text(breaking_changes=["0"]), "Expected `int`.*breaking_changes"),
        (_text(breaking_changes=[7]), "breaking_changes must be a list of timesteps"),
        (_text(utility_by_step={"0": None}), "got `null`.*utility_by_step"),
        (_text(utility_by_step={"0": "6"}), "got `str`.*utility_by_step"),
        (_text(utility_by_step={"9": 1}), "not a timestep"),
        (_text(utility_by_step=[1]), "Expected `object`.*utility_by_step"),
        (_text(total_drift_events=-1), "total_drift_events"),
        ("[" * 100_000, "no JSON|too deeply"),
        ('{"steps": [{"t": 0, "observation": "\\ud800"}], "labels": {}}', "not JSON"),
    ],
)
def test_a_bad_line_is_reported_with_file_line_and_reason(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_text(json.dumps(GOOD) + "\n\n" + line + "\n", encoding="utf-8")

    with raises_code("bad_episode", match=problem) as caught:
        load_jsonl(file)
    assert (caught.value.facts["file"], caught.value.facts["line"]) == (str(file), 3)


def test_a_nan_utility_is_refused_when_an_episode_is_built() -> None:
    with pytest.raises(InvalidValue, match="finite"):
        Episode.from_json({"steps": [STEP], "labels": {"utility_by_step": {"0": float("nan")}}})


def test_an_endless_line_is_refused_before_it_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes_module, "MAX_EPISODE_BYTES", 1_000)
    file = tmp_path / "endless.jsonl"
    file.write_bytes(b" " * 5_000)

    with raises_code("bad_episode", match="longer than 1000 bytes"):
        locate_episodes(file)
    assert limits.MAX_EPISODE_BYTES < 1 << 30


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(b'{"steps": [{"t": 0, "observation": "\xff"}], "labels": {}}\n')

    with raises_code("bad_episode", match="not JSON in UTF-8"):
        load_jsonl(file)


def test_a_missing_file_and_an_empty_file_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n \n", encoding="utf-8")
    with pytest.raises(BadFile, match="no episodes"):
        load_jsonl(tmp_path / "empty.jsonl")
    with pytest.raises(BadFile, match="No such file"):
        load_jsonl(tmp_path / "nowhere.jsonl")


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=3), st.text(max_size=6), min_size=1, max_size=3), st.booleans())
def test_a_duplicate_key_is_detected_whatever_the_strings_contain(
    members: dict[str, str], twice: bool
) -> None:
    body = json.dumps(members)[1:-1]
    key = json.dumps(next(iter(members)))
    text = "{" + body + (f", {key} : 1" if twice else "") + "}"

    if twice:
        with pytest.raises(InvalidValue, match="twice"):
            episodes_module._parse(text.encode())
    else:
        assert episodes_module._parse(text.encode()) == members


def test_a_manifest_reports_every_change(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / f"{name}.jsonl", [small_episode(20)])
    (tmp_path / MANIFEST).write_text(json.dumps(manifest_of(tmp_path)), encoding="utf-8")
    assert check_manifest(tmp_path) == []

    (tmp_path / "a.jsonl").unlink()
    write_jsonl(tmp_path / "b.jsonl", [small_episode(21)])
    write_jsonl(tmp_path / "c.jsonl", [small_episode(20)])

    assert check_manifest(tmp_path) == [
        "a.jsonl is missing",
        "c.jsonl is not in the manifest",
        "b.jsonl has changed",
    ]


@pytest.mark.parametrize(
    "file", [f for f in REAL if "short" in f.name] + REFERENCE, ids=lambda file: file.name
)
def test_every_real_file_is_read(file: Path) -> None:
    found = locate_episodes(file)
    episode = read_episode(found[0])

    assert file_hash(file)
    assert Episode.from_json(json.loads(episode_line(episode))).labels.worth == episode.labels.worth


@pytest.mark.parametrize("folder", [DATA / "episodes"] if REAL else [])
def test_the_real_files_match_their_manifest(folder: Path) -> None:
    assert check_manifest(folder) == []
