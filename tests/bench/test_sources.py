"""Generators are reproducible, importers find what changed, and labels follow one rule."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast import InvalidValue
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import episode_line
from standfast.bench.runner import PricedEpisode
from standfast.bench.sources.descriptions import operations, parse_description, read_openapi
from standfast.bench.sources.git_history import SourceVersion, file_version, git_versions
from standfast.bench.sources.interfaces import (
    InterfaceVersion,
    interface_episode,
    interface_versions,
    operation_changes,
)
from standfast.bench.sources.labelling import CLASS_OF_KIND, CRITICAL, UTILITY
from standfast.bench.sources.markdown import (
    SUFFIXES,
    ChangelogNote,
    changelog_episode,
    docs_episode,
    kind_of_note,
    read_notes,
    section_changes,
    sections_of,
)
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate, generate_against
from standfast.cli import main
from standfast.errors import BadFile
from standfast.policies.byte_model import ByteModel
from standfast.policies.features import ObservationKind, kind_of
from tests.bench.episodes import DATA

PAIRS = sorted((DATA / "raw" / "openapi").glob("*.expected.json"))
CHANGELOGS = {
    # How many releases and notes these files have, by the manifest that came with them.
    "react.CHANGELOG.md": (105, 1_426),
    "stripe-python.CHANGELOG.md": (355, 1_777),
    "twilio-oai.CHANGES.md": (144, 973),
}


@pytest.mark.parametrize("regime", [regime for regime in Regime if regime is not Regime.ADVERSARIAL])
def test_a_seed_gives_the_same_bytes_again_and_another_seed_others(regime: Regime) -> None:
    settings = DriftSettings(steps=80, regime=regime, seed=3)

    assert episode_line(generate(settings, 1)) == episode_line(generate(settings, 1))
    assert episode_line(generate(settings, 1)) != episode_line(generate(settings, 2))
    assert episode_line(generate(settings, 1)) != episode_line(
        generate(DriftSettings(steps=80, regime=regime, seed=4), 1)
    )


def test_a_stream_has_all_three_observation_types() -> None:
    kinds = {kind_of(step.observation) for step in generate(DriftSettings(steps=1_000), 0).steps}

    assert kinds == {
        ObservationKind.API_SCHEMA,
        ObservationKind.DOCUMENTATION,
        ObservationKind.MIGRATION_GUIDE,
    }


def test_regimes_differ_in_drift_and_repetition() -> None:
    def drift(regime: Regime) -> tuple[float, float]:
        episode = generate(DriftSettings(steps=1_000, regime=regime), 0)
        critical = sorted(episode.labels.critical_steps)
        in_window = sum(t % 50 < 8 for t in critical) / len(critical)
        apis = [step.observation["api"] for step in episode.steps]
        return in_window, sum(a == b for a, b in pairwise(apis)) / len(apis)

    assert drift(Regime.BURSTS)[0] > 0.5 > drift(Regime.DEFAULT)[0]
    assert drift(Regime.REDUNDANCY)[1] > 0.6 > drift(Regime.DEFAULT)[1]


@pytest.mark.parametrize(
    "problem", [{"steps": 0}, {"drift_rate": 1.5}, {"burst_steps": 60}, {"endpoints": -1}]
)
def test_invalid_settings_of_a_stream_are_refused(problem: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        DriftSettings(**problem)


@pytest.mark.parametrize("policy", ["RecencyBias", "MergeAggressive", "BanditUCB", "DriftValue"])
def test_an_adversarial_stream_lowers_the_recall_of_its_policy(policy: str) -> None:
    settings = DriftSettings(steps=100, regime=Regime.ADVERSARIAL)
    hostile = generate_against(settings, 0, policy, 3_000)
    natural = generate(DriftSettings(steps=100), 0)
    recalls = [
        PricedEpisode(episode, ByteModel.SPEC).run(Entrant.parse(policy), 3_000).metrics.recall
        for episode in (hostile, natural)
    ]

    assert episode_line(hostile) == episode_line(generate_against(settings, 0, policy, 3_000))
    assert len(hostile.steps) == 100
    assert recalls[0] < 0.5
    if policy in ("BanditUCB", "DriftValue"):
        assert recalls[0] < recalls[1]


def test_no_stream_can_be_made_against_an_oracle() -> None:
    with pytest.raises(InvalidValue, match="knows the whole stream"):
        generate_against(DriftSettings(regime=Regime.ADVERSARIAL), 0, "OracleOptimal")


def _api(**operation: Any) -> dict[str, Any]:
    return {"openapi": "3.0.0", "paths": {"/v1/pay/{id}": {"post": operation}}}


BODY: dict[str, Any] = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "integer"}, "mode": {"type": "string", "enum": ["A", "b"]}},
}


def _with(body: dict[str, Any], **more: Any) -> dict[str, Any]:
    return _api(requestBody={"content": {"application/json": {"schema": body}}}, **more)


@pytest.mark.parametrize(
    ("new", "kinds"),
    [
        (_with(BODY), ()),
        (_with({**BODY, "properties": {"amount": {}}}), ("params_removed",)),
        (_with({**BODY, "required": ["amount", "mode"]}), ("param_made_required",)),
        (_with({**BODY, "required": []}), ("required_relaxed",)),
        (_with({**BODY, "properties": {**BODY["properties"], "tip": {}}}), ("optional_params_added",)),
        (
            _with({**BODY, "required": ["amount", "tip"], "properties": {**BODY["properties"], "tip": {}}}),
            ("required_param_added",),
        ),
        (_with(BODY, deprecated=True), ("deprecated_on",)),
        (
            _with({**BODY, "properties": {**BODY["properties"], "mode": {"enum": ["a"]}}}),
            ("request_enum_removed",),
        ),
        (
            _with({**BODY, "properties": {**BODY["properties"], "mode": {"enum": ["a", "B", "c"]}}}),
            ("request_enum_added",),
        ),
        ({"paths": {"/v1/pay/{renamed}": _with(BODY)["paths"]["/v1/pay/{id}"]}}, ()),
        ({"paths": {}}, ("endpoint_removed",)),
    ],
)
def test_what_changed_in_an_operation(new: dict[str, Any], kinds: tuple[str, ...]) -> None:
    found = operation_changes(operations(_with(BODY), source="x"), operations(new, source="x"))

    assert tuple(found.values()) == ((kinds,) if kinds else ())


def test_swagger_two_and_yaml_and_references_are_understood() -> None:
    text = b"""
swagger: "2.0"
host: api.example.com
basePath: /v2
paths:
  /pets:
    parameters:
      - $ref: "#/parameters/limit"
    post:
      parameters:
        - {in: body, name: body, schema: {$ref: "#/definitions/Pet"}}
        - {in: header, name: X-Trace, type: string}
      responses:
        200: {schema: {type: array, items: {$ref: "#/definitions/Pet"}}}
parameters:
  limit: {in: query, name: limit, type: integer, required: true}
definitions:
  Pet: {allOf: [{$ref: "#/definitions/Named"}, {properties: {kind: {enum: [Cat, Dog]}}, required: [kind]}]}
  Named: {properties: {name: {type: string}}}
"""
    found = operations(parse_description(text, "pets.yaml"), source="pets", with_host=True)
    (pet,) = found.values()

    assert pet.name == "pets:POST api.example.com/v2/pets"
    assert pet.params == {"limit", "kind", "name"}
    assert pet.required == {"limit", "kind"}
    assert pet.enums["in.kind"] == {"cat", "dog"}


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"{}", b"paths: [", b"\xff\xfe{", b'{"paths": []}', b"just text"]
)
def test_an_invalid_description_is_reported(content: bytes) -> None:
    with pytest.raises(BadFile):
        parse_description(content, "x")


def test_circular_and_missing_references_end() -> None:
    circle = {"$ref": "#/components/schemas/A"}
    document = _with(circle)
    document["components"] = {"schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": circle}}

    assert len(operations(document, source="x")) == 1
    assert len(operations(_with({"$ref": "elsewhere.json#/A"}), source="x")) == 1


@pytest.mark.parametrize("expected", PAIRS, ids=lambda path: path.name.removesuffix(".expected.json"))
def test_real_descriptions_give_the_expected_changes(expected: Path) -> None:
    expected_changes = json.loads(expected.read_text(encoding="utf-8"))
    sides = []
    for side in ("old", "new"):
        file = str(expected).replace(".expected.", f".{side}.")
        document = parse_description(Path(file).read_bytes(), file)
        sides.append(
            operations(
                document, source=expected_changes["source"], with_host=expected_changes["source"] == "twilio"
            )
        )
    old, new = sides
    found = {
        (new.get(identity) or old[identity]).name: set(kinds)
        for identity, kinds in operation_changes(old, new).items()
    }

    assert found == {touch["api"]: set(touch["kinds"]) for touch in expected_changes["touched"]}


def test_a_history_in_git_becomes_an_episode(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for day, document in (
        (1, _with(BODY)),
        (2, _with({**BODY, "required": []})),
        (3, _with(BODY, deprecated=True)),
    ):
        (tmp_path / "api.json").write_text(json.dumps(document), encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        stamp = f"2026-01-0{day}T12:00:00Z"
        environment = {
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_DATE": stamp,
            "PATH": "/usr/bin:/bin:/usr/local/bin",
        }
        subprocess.run([*git, "commit", "-qm", "x"], check=True, env=environment)
    versions = interface_versions(git_versions(str(tmp_path), "api.json"), read_openapi, source="pay")
    episode = interface_episode(versions, source="pay", redundancy=1.0)

    assert list(episode.labels.raw["event_kinds"].values()) == [
        ["required_relaxed"],
        ["unchanged"],
        ["param_made_required", "deprecated_on"],
        ["unchanged"],
    ]
    assert episode.labels.critical_steps == {2}
    assert episode.steps[2].observation["version"] == "2026-01-03"
    with pytest.raises(BadFile, match="no commit touches"):
        list(git_versions(str(tmp_path), "nothing.json"))
    with pytest.raises(BadFile):
        list(git_versions(str(tmp_path / "nowhere"), "api.json"))


def test_two_equal_versions_are_refused() -> None:
    same = [InterfaceVersion(label=label, operations=operations(_with(BODY), source="x")) for label in "ab"]
    with pytest.raises(InvalidValue, match="nothing changed"):
        interface_episode(same, source="x")


LOG = """# Changelog

## 2.0.0 - 2026-02-01

### Breaking Changes
- Renamed `Charge.amount`

### Other
* Updates to generated code:
  * Add support for `tips` on `Charge`
  * Remove support for `cheques` on `Charge`
* Fixes a crash ([#12](https://example.com/12), @someone)

[2025-12-24] SpecVersion 1.9.0
--------------------------
**Payments**
- Deprecated the old client
- CVE-2025-1 mended
- CVE-2025-1 mended
"""


def test_a_changelog_is_read_oldest_release_first() -> None:
    episode = changelog_episode(LOG, source="pay", name="LOG.md")
    kinds = [kinds[0] for kinds in episode.labels.raw["event_kinds"].values()]

    assert kinds == ["deprecation", "security", "duplicate", "breaking", "added", "removal", "fix"]
    assert episode.labels.critical_steps == {0, 1, 3, 5}
    assert episode.steps[0].observation["last_updated"] == "2025-12-24"
    assert episode.steps[0].observation["api"] == "pay:payments"
    assert episode.steps[-1].observation["content"] == "Fixes a crash"


def test_releases_may_be_deeper_headings() -> None:
    text = "# News\n### v2.0.0\n#### Breaking Changes\n- Gone\n#### Since 1.9\n- More\n### v1.0.0\n- First\n"
    notes = list(read_notes(text))

    assert [(note.version, note.section, note.text) for note in notes] == [
        ("2.0.0", "Breaking Changes", "Gone"),
        ("2.0.0", "Since 1.9", "More"),
        ("1.0.0", "", "First"),
    ]


def test_a_text_without_releases_is_refused() -> None:
    with pytest.raises(BadFile, match="no release"):
        changelog_episode("Just words.\n- and a list\n", source="x", name="x.md")


def test_every_kind_of_note_has_a_class() -> None:
    notes = [ChangelogNote(version="1.0", date=None, heading="", section=section, text=text, raw=text) for section, text in (  # noqa: E501  # Data.
        ("", "anything"), ("Docs", "x"), ("Internal", "x"), ("", "Added x"), ("", "Changed x"), ("", "Fixed x"),  # noqa: E501  # Data.
    )]  # fmt: skip

    assert {kind_of_note(note) for note in notes} <= set(CLASS_OF_KIND)


@pytest.mark.parametrize(
    ("section", "text", "kind"),
    [
        ("Added", "Add a command that finds removed and deprecated fields", "added"),
        ("Fixed", "Fix a crash when a breaking change was detected", "fix"),
        ("Bug Fixes", "Drop the lock before deleting", "fix"),
        ("Removed", "The old client", "removal"),
        ("Deprecated", "The old client", "deprecation"),
        ("⚠ BREAKING CHANGES", "New names", "breaking"),
        ("Security", "Rotate keys", "security"),
        ("Fixed > Breaking", "New names", "breaking"),
        ("Added", "**BREAKING**: new names", "breaking"),
        ("Changed", "Breaking: new names", "breaking"),
        ("Changed", "Removed the old client", "removal"),
        ("", "This is not a breaking change", "other"),
        ("", "No breaking changes", "other"),
        ("", "The field is no longer deprecated", "other"),
        ("", "The file isn't removed at exit", "other"),
        ("", "Handle the word `deprecated` in paths", "other"),
        ("", 'Add the state "removed" to invoices', "added"),
        ("", "It is a breaking change", "breaking"),
        ("", "The client is no longer supported", "removal"),
        ("Internal changes", "Remove a helper", "internal"),
        ("React DOM docs", "Remove a page", "docs"),
    ],
)
def test_headings_decide_before_words_and_quoted_or_negated_words_do_not_count(
    section: str, text: str, kind: str
) -> None:
    note = ChangelogNote(version="1.0", date=None, heading=section, section=section, text=text, raw=text)

    assert kind_of_note(note) == kind


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_a_body_that_gets_alternatives_loses_no_parameter(word: str) -> None:
    other = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
    old = operations(_with(BODY), source="pay")
    new = operations(_with({word: [BODY, other]}), source="pay")
    kinds = {kind for kinds in operation_changes(old, new).values() for kind in kinds}

    assert kinds == {"optional_params_added", "required_relaxed"}
    back = {kind for kinds in operation_changes(new, old).values() for kind in kinds}
    assert back == {"params_removed", "param_made_required"}


def test_a_field_is_enumerated_if_every_alternative_that_has_it_says_so() -> None:
    def enums(*alternatives: dict[str, Any]) -> dict[str, frozenset[str]]:
        bodies = [{"properties": {"state": one}} for one in alternatives]
        (operation,) = operations(
            _with({"oneOf": [*bodies, {"properties": {"x": {}}}]}), source="pay"
        ).values()
        return {field: values for field, values in operation.enums.items() if field.startswith("in.")}

    assert enums({"enum": ["a"]}, {"enum": ["b"]}) == {"in.state": frozenset({"a", "b"})}
    assert enums({"enum": ["a"]}, {"type": "string"}) == {}


def test_a_page_that_becomes_a_notebook_lives_on(tmp_path: Path) -> None:
    words = " ".join(f"word{n}" for n in range(30))
    cells = [
        {"cell_type": "markdown", "source": ["# Use\n", words]},
        {"cell_type": "code", "source": "print(1)"},
    ]
    for version in ("v1", "v2", "v3"):
        (tmp_path / version).mkdir()
    (tmp_path / "v1/page.md").write_text(f"# Use\n{words}\n", encoding="utf-8")
    (tmp_path / "v2/page.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    (tmp_path / "v3/page.ipynb").write_text("{broken", encoding="utf-8")
    (tmp_path / "v3/other.md").write_text("New.", encoding="utf-8")
    reported: list[str] = []
    episode = docs_episode(
        [file_version(str(tmp_path / version), SUFFIXES) for version in ("v1", "v2", "v3")],
        source="d",
        skipped=lambda what, why: reported.append(f"{Path(what).name} {why}"),
    )
    kinds = list(episode.labels.raw["event_kinds"].values())

    assert kinds == [["edited"], ["section_added"]]
    assert len(reported) == 1
    assert reported[0].startswith("v3: page.ipynb Expecting property name")


def test_versions_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    empty = json.dumps({"openapi": "3.0.0", "paths": {}})
    texts = [json.dumps(_with(BODY)), "{broken", None, empty, json.dumps(_with(BODY, deprecated=True))]
    for day, text in enumerate(texts, 1):
        file = tmp_path / "api.json"
        if text is None:
            file.unlink()
        else:
            file.write_text(text, encoding="utf-8")
        subprocess.run([*git, "add", "-A"], check=True)
        stamp = f"2026-01-0{day}T12:00:00Z"
        environment = {
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_DATE": stamp,
            "PATH": "/usr/bin:/bin:/usr/local/bin",
        }
        subprocess.run([*git, "commit", "-qm", "x"], check=True, env=environment)
    out = tmp_path / "e.jsonl"
    run = CliRunner().invoke(
        main,
        [
            "bench",
            "import",
            "openapi",
            "--git",
            str(tmp_path),
            "--path",
            "api.json",
            "--out",
            str(out),
            "--json",
        ],
    )
    answer = json.loads(run.stdout)

    assert [one["what"].split()[0] for one in answer["skipped"]] == ["2026-01-02", "2026-01-03", "2026-01-04"]
    assert [
        "can't be read" in run.stderr,
        "deleted or moved" in run.stderr,
        "considered broken" in run.stderr,
    ] == [True] * 3
    assert answer["steps"] == 1


@pytest.mark.parametrize("name", CHANGELOGS if PAIRS else [])
def test_real_changelogs_are_read_whole(name: str) -> None:
    releases, notes = CHANGELOGS[name]
    found = list(read_notes((DATA / "raw" / "changelogs" / name).read_text(encoding="utf-8")))

    assert len({note.version for note in found}) == releases
    # The manifest counts a bold bullet as a heading and not as a note, as this reader did once.
    assert abs(len(found) - notes) / notes < 0.05


def test_documentation_is_compared_section_by_section(tmp_path: Path) -> None:
    words = " ".join(f"word{n}" for n in range(40))
    old = (
        f"Top.\n\n# Use {{#use}}\n{words}\n# Gone\nThat was all of it, bye.\n# Same\nStill.\n# Was\nMoved"
        " text.\n"
    )
    new = (
        f"Top.\n\n# Use it {{#use}}\n{words} and more\n# Same\nStill.\n# Is\nMoved text.\n#"
        " Fresh\nDeprecated!\n"
    )
    for version, text in (("v1", old), ("v2", new)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "page.md").write_text(text, encoding="utf-8")
    episode = docs_episode(
        [file_version(str(tmp_path / name), SUFFIXES) for name in ("v1", "v2")], source="d"
    )
    kinds = {
        step.observation["api"]: episode.labels.raw["event_kinds"][str(step.t)]
        for step in episode.steps
        if episode.labels.raw["event_kinds"][str(step.t)] != ["baseline"]
    }

    assert kinds == {
        "d:page#fresh": ["section_added"],
        "d:page#is": ["edited"],
        "d:page#use": ["edited"],
        "d:page#gone": ["section_removed"],
        "d:page#was": ["edited"],
    }


def test_warnings_and_rewrites_are_detected() -> None:
    words = [f"word{n}" for n in range(20)]
    text = " ".join(words)

    assert section_changes({"a": text}, {"a": text + "\nIt is deprecated."}) == {
        "a": ("warning_added", "edited")
    }
    half = " ".join(words[:9] + ["x"] * 11)
    assert section_changes({"a": text}, {"a": half}) == {"a": ("edited_major",)}, "no name was lost"
    assert section_changes({"a": f"{text} `run`"}, {"a": half}) == {"a": ("rewritten",)}
    assert section_changes({"a": f"{text}\n```\nrun\n```"}, {"a": f"{half} `run`"}) == {
        "a": ("edited_major",)
    }
    assert section_changes({"a": text}, {"a": f"{text}\nThe log warns of a warning"}) == {
        "a": ("edited_major",)
    }
    assert section_changes({"a": text}, {"a": " ".join(words[:15] + ["x"] * 5)}) == {"a": ("edited_major",)}
    assert section_changes({"a": text}, {"a": text}) == {}


@pytest.mark.parametrize(
    ("sections", "removed", "kind"),
    [
        (50, 21, "edited"),
        (50, 20, "section_removed"),  # 60 % are left.
        (33, 20, "edited"),
        (20, 19, "section_removed"),  # A handful is no reorganisation, whatever its share.
    ],
)
def test_what_disappears_with_most_of_the_pages_was_reorganised(
    sections: int, removed: int, kind: str
) -> None:
    old = {f"page{n}": f"the number {n} has a section of its own" for n in range(sections)}
    new = dict(list(old.items())[removed:])

    assert set(section_changes(old, new).values()) == {(kind,)}


def test_labels_follow_the_class_of_a_step() -> None:
    episode = generate(DriftSettings(steps=300), 0)
    kinds, labels = episode.labels.raw["event_kinds"], episode.labels
    for step in episode.steps:
        drift = CLASS_OF_KIND[kinds[str(step.t)][0]]

        assert (step.t in labels.critical_steps) == (drift in CRITICAL)
        assert labels.utility_by_step[step.t] in (UTILITY[drift], UTILITY[drift] / 2)


def test_a_bold_line_inside_a_note_is_no_heading() -> None:
    """Only a paragraph of its own, outside of lists, is one."""
    text = (
        "## 1.1.0\n\n- Something is added\n\n  **Breaking**\n\n  It was long.\n- Another thing is added\n\n"
        "**Deprecated**\n\n- The old way\n\nBug fixes:\n\n- The other way\n"
    )
    notes = list(read_notes(text))

    assert [(note.section, kind_of_note(note)) for note in notes] == [
        ("", "breaking"),
        ("", "added"),
        ("Deprecated", "deprecation"),
        ("Bug fixes", "fix"),
    ]


def test_headings_are_what_a_markdown_parser_says() -> None:
    text = (
        "---\ntitle: 9.9.9\n---\nNotes\n=====\n\n1.2.0 / 2024-01-02\n------------------\n\n* one\n  goes on\n\n"  # noqa: E501  # Data.
        "```\n## 3.0.0\n- no note\n```\n\n<!--\n## 4.0.0\n- no note\n-->\n\n1. two\n   - three\n"
    )
    notes = list(read_notes(text))

    assert [(note.version, note.date, note.section, note.text) for note in notes] == [
        ("1.2.0", "2024-01-02", "", "one goes on"),
        ("1.2.0", "2024-01-02", "two", "three"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The server no longer crashes on an empty body", "other"),
        ("Fix a panic when removing a file", "fix"),
        ("Remove unused variable", "relaxed"),
        ("core: remove `old()`", "removal"),
        ("Drop support for Python 3.7", "removal"),
        ("Python 3.7 is no longer supported", "removal"),
        ("`x` has been removed", "removal"),
        ("Improve security of cookies", "changed"),
        ("Avoid a ReDoS in the parser", "security"),
        ("Correct the error when a key was renamed twice", "fix"),
        ("Fix a bug by which spaces were removed", "fix"),
        ("Replace deprecated `substr`", "internal use"),
        ("test: remove the old way", "internal use"),
        ("Removed the private function `x`", "relaxed"),
        ("Lower the minimum version of Python", "relaxed"),
    ],
)
def test_words_count_where_they_say_what_a_note_does(text: str, kind: str) -> None:
    (note,) = read_notes(f"## 1.0.0\n\n- {text}\n")

    assert kind_of_note(note) == kind


def test_a_section_that_moved_to_any_page_is_not_removed() -> None:
    words = " ".join(f"word{number}" for number in range(40))
    longer = f"An introduction of some length stands before it. {words} And something follows."
    other = " ".join(f"else{number}" for number in range(40))

    assert section_changes({"d:a#x": words}, {"d:b#y": longer})["d:a#x"] == ("edited",)
    assert section_changes({"d:a#x": words}, {"d:b#y": other})["d:a#x"] == ("section_removed",)
    third = " ".join(f"word{number}" for number in range(12))
    assert section_changes({"d:a#x": words}, {"d:b#y": third})["d:a#x"] == ("section_removed",)


def test_headings_that_a_page_repeats_are_told_apart_by_the_one_above() -> None:
    """A release that is added on top must not rename the sections of all others."""
    old = "## 1.0\n\n### Fixed\n\nOne thing that was broken.\n"
    new = f"## 1.1\n\n### Fixed\n\nAnother thing.\n\n## 0.9\n\n### Fixed\n\nAn old one.\n\n{old}"
    newer = f"## 1.2\n\n### Fixed\n\nThe newest.\n\n{new}"
    versions = [
        SourceVersion(label=str(n), files={"page.md": t.encode()}) for n, t in enumerate((new, newer))
    ]
    before, after = (sections_of(version, "d")[0] for version in versions)

    assert set(after) - set(before) == {"d:page#1-2/fixed"}
    assert {name: after[name] for name in before} == before


def test_pages_of_release_notes_are_no_documentation() -> None:
    files = {"docs/release-notes.md": b"# A\n\ntext", "docs/use.md": b"# B\n\ntext"}

    assert set(sections_of(SourceVersion(label="1", files=files), "d")[0]) == {"d:docs/use#b"}
