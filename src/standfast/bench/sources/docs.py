"""Episodes from versions of a documentation: folders of Markdown, compared section by section.

A section is what stands under a heading; its name is the page and the heading's anchor. From one version to the next it is

    section_added      it was not there before
    section_removed    it is not there any more
    warning_added      it warns more often than before
    rewritten          fewer than 60 % of its words are the same
    edited_major       fewer than 90 %
    edited             fewer than all; so is text that only moved to another heading
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import Touch, labelled
from standfast.errors import BadFile, InvalidValue
from standfast.limits import MAX_SOURCE_BYTES

SUFFIXES: Final = frozenset((".md", ".mdx", ".markdown"))
CONTENT_CHARS: Final = 1_000
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_ANCHOR: Final = re.compile(r"\{(?:/\*)?#?([\w-]+)(?:\*/)?\}\s*$")
_WARNS: Final = re.compile(
    r"\bdeprecat|\bwarning\b|\bcaution\b|\bpitfall\b|\bdanger\b|\bwill be removed\b|\bno longer\b",
    re.IGNORECASE,
)
REWRITTEN: Final = 0.6
MAJOR: Final = 0.9
BASELINE_SHARE: Final = 0.2


def docs_episode(folders: Sequence[str], *, source: str, labels: Sequence[str] | None = None) -> Episode:
    """What changed from folder to folder, oldest first, as one stream; each step shows a section as it now is."""
    if len(folders) < 2:
        raise InvalidValue(what="Episode", problem="it takes two versions at least to see a change")
    names = list(labels) if labels is not None else [Path(folder).name for folder in folders]
    first = last = sections_of(folders[0], source)
    touches: list[Touch] = []
    shown_at: dict[str, int] = {}
    for number, (folder, label) in enumerate(zip(folders[1:], names[1:], strict=True), 1):
        new = sections_of(folder, source)
        for api, kinds in section_changes(last, new).items():
            distance = number - shown_at.get(api, number)
            shown_at[api] = number
            touches.append(
                Touch(
                    observation=_shown(api, new.get(api), label),
                    kinds=kinds,
                    version_distance=distance,
                    date=label,
                )
            )
        last = new
    if not touches:
        raise InvalidValue(what="Episode", problem="nothing changed between these versions")
    count = min(len(first), round(BASELINE_SHARE * len(touches)))
    step = max(1, len(first) // max(count, 1))
    baselines = [
        Touch(observation=_shown(api, first[api], names[0]), kinds=("baseline",), date=names[0])
        for api in sorted(first)[::step][:count]
    ]
    return labelled(
        baselines + touches, source=source, mode="docs", episode_id=names[-1], halve_superseded=True
    )


def section_changes(old: dict[str, str], new: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The kinds of change by section: those that are there now by name, then those that are gone."""
    left, came = set(old.values()) - set(new.values()), set(new.values()) - set(old.values())
    found = {}
    for api in sorted(new):
        kinds = _kinds(old.get(api), new[api], moved=api not in old and new[api] not in came)
        if kinds:
            found[api] = kinds
    for api in sorted(set(old) - set(new)):
        found[api] = ("section_removed",) if old[api] in left else ("edited",)
    return found


def _kinds(old: str | None, new: str, *, moved: bool) -> tuple[str, ...]:
    if old is None:
        return ("edited",) if moved else ("section_added",)
    if old == new:
        return ()
    kinds = ["warning_added"] if len(_WARNS.findall(new)) > len(_WARNS.findall(old)) else []
    alike = word_likeness(old, new)
    kinds.append("rewritten" if alike < REWRITTEN else "edited_major" if alike < MAJOR else "edited")
    return tuple(kinds)


def word_likeness(left: str, right: str) -> float:
    """The share of words that two texts have in common, each as often as it stands there."""
    ours, theirs = Counter(re.findall(r"\w+", left)), Counter(re.findall(r"\w+", right))
    total = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / total if total else 1.0


def sections_of(folder: str, source: str) -> dict[str, str]:
    """The text of each section of each page in a folder, by its name."""
    root = Path(folder)
    pages = sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not pages:
        raise BadFile(file=folder, problem=f"there is no {', '.join(sorted(SUFFIXES))} file in it")
    found: dict[str, str] = {}
    for path in pages:
        page = path.relative_to(root).with_suffix("").as_posix()
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise BadFile(file=str(path), problem=f"it is larger than {MAX_SOURCE_BYTES} bytes")
        text = path.read_text(encoding="utf-8", errors="replace")
        for anchor, content in _sections(text).items():
            found[f"{source}:{page}#{anchor}"] = content
    return found


def _sections(text: str) -> dict[str, str]:
    parts: dict[str, list[str]] = {"top": []}
    anchor, fenced = "top", False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            parts[anchor].append(line)
            continue
        marked = _ANCHOR.search(heading[2])
        name = marked[1] if marked is not None else re.sub(r"[\W_]+", "-", heading[2].casefold()).strip("-")
        anchor, number = name, 2
        while anchor in parts:
            anchor, number = f"{name}-{number}", number + 1
        parts[anchor] = []
    joined = {name: "\n".join(lines).strip() for name, lines in parts.items()}
    return {name: content for name, content in joined.items() if content}


def _shown(api: str, content: str | None, label: str) -> dict[str, Any]:
    return {
        "api": api,
        "section": api.partition(":")[2],
        "content": (content or "")[:CONTENT_CHARS],
        "deprecated": content is None or bool(_WARNS.search(content)),
        "last_updated": label,
        "status": "active" if content is not None else "removed",
    }
