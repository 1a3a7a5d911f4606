"""Episodes from Markdown: the notes of a changelog, or the sections of a documentation that change from
version to version.

Headings, lists and paragraphs are what a CommonMark parser says they are (markdown-it-py).

In a changelog, a release is a heading with a version number. A section is a deeper heading, a paragraph
outside of lists that is all bold or that introduces a list ("Bug fixes:"), or a note that only introduces
deeper ones. A note is an item of a list. Its kind is the first of these that applies:

    breaking      it carries a mark: a warning sign, "**Breaking", "[BREAKING]", or "Breaking:" at its start
    as headed     the nearest heading that names a kind decides: Breaking, Security, Deprecated, Removed,
                  Fixed, Added, Internal, Docs
    breaking      it says that it is a breaking change
    security      it names a CVE, a vulnerability or a kind of attack
    fix           it begins with "fix"
    deprecation   it says that something is deprecated
    relaxed       a requirement, a restriction or something broken or unused is removed
    behaviour     it changes a type, a format, a default or a behaviour, or requires something new
    removal       it begins with removing or dropping, or says that something was removed or is no longer
                  supported
    fix, internal, docs, renamed, added, changed    by its words, in that order; internal before all others if
                  the note is about tests and the like, or stops using what others have deprecated
    removal       it names only a thing, and its section says that something is removed
    other         anything else

Words in quotes or in code, and negated words ("no breaking changes", "is not removed"), do not count.

The same text in the same section again is a duplicate.

In a documentation, a section is the text under a heading; its name is the page and the heading's anchor. Its
kinds are:

    section_added      it is new
    section_removed    it was removed, and no page of the new version has half of its text
    warning_added      it has a line that warns or deprecates and that it did not have
    rewritten          fewer than 60 % of its words are the same, it has twenty words or more, and it lost a
                       name that stood in code: a command, a function, an option
    edited_major       fewer than 90 %
    edited             fewer than all; text that moved; a section of less than five words was removed, or one
                       of twenty or more in a version that keeps fewer than 60 % of all sections: the pages
                       were reorganised
    formatted          all, but for links and punctuation
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.git_history import SourceVersion
from standfast.bench.sources.labelling import (
    DriftEvent,
    ReportSkipped,
    forms_of,
    ignore_skipped,
    label_episode,
)
from standfast.errors import BadFile, InvalidValue, MissingExtra

_VERSION: Final = re.compile(r"\bv?(\d+\.\d+(?:\.\d+)*(?:[-.]?[A-Za-z]+[\w.]*)?)")
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_WORD_DATE: Final = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b"
)
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905  # Easier to read than a list.
_BOLD: Final = re.compile(r"(\*\*|__)(?P<title>(?:(?!\1).)+)\1:?")
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_THANKS: Final = re.compile(r"\(?(?:Thanks to|thanks|by)?\s*@[\w-]+[^)]*\)?[!.]?|\[?#\d+\]?")
_RESOURCE: Final = re.compile(r"`(?:[a-z]\w*\.)?([A-Z]\w+)")
INTRODUCTION_CHARS: Final = 60

_FORMS: Final = forms_of("markdown.forms")
_KINDS, _HEADED = (
    {title.removeprefix(start): form for title, form in _FORMS.items() if title.startswith(start)}
    for start in ("note ", "heading ")
)
_QUOTED: Final = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")

NOTEBOOK: Final = ".ipynb"
SUFFIXES: Final = (".ipynb", ".markdown", ".md", ".mdx")
CONTENT_CHARS: Final = 1_000
_ANCHOR: Final = re.compile(r"\{(?:/\*)?#?([\w-]+)(?:\*/)?\}\s*$")
_WARNS: Final = _FORMS["warning"]
_IN_CODE: Final = re.compile(r"`([^`\n]+)`")
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{2,}")
_ADDRESS: Final = re.compile(r"\]\([^)]*\)|^\[[^\]]+\]: \S+|https?://\S+", re.MULTILINE)
_NOTES_PAGE: Final = re.compile(
    r"(?i)change[-_]?log|release[-_ ]?notes|^history$|^changes$|^news$|whats?[-_]?new"
)
SECTION_WORDS: Final = 5
REWRITTEN_WORDS: Final = 20
REWRITTEN: Final = 0.6
MAJOR: Final = 0.9
REORGANISED_SHARE: Final = 0.6
REORGANISED_SECTIONS: Final = 20
BASELINE_SHARE: Final = 0.2
SHINGLE_WORDS: Final = 5
MOVED_SHARE: Final = 0.5


class ChangelogNote(msgspec.Struct, frozen=True, kw_only=True):
    """One note of a changelog."""

    version: str
    date: str | None
    heading: str
    section: str
    text: str
    raw: str


def changelog_episode(
    content: str, *, source: str, name: str, skipped: ReportSkipped = ignore_skipped
) -> Episode:
    """Return the notes of a changelog as one stream, oldest release first.

    Notes that belong to no release with a version number, such as "Unreleased", are left out and reported.
    """
    found = list(read_notes(content))
    notes = [note for note in found if note.version]
    if len(notes) < len(found):
        skipped(name, f"{len(found) - len(notes)} notes before the first release with a version number")
    if not notes:
        raise BadFile(file=name, problem="it has no release with a version number and notes")
    releases = list(dict.fromkeys(note.version for note in notes))
    if _newest_first(notes):
        order = {version: place for place, version in enumerate(reversed(releases))}
        notes.sort(key=lambda note: order[note.version])
    events = list(_changelog_events(notes, source))
    return label_episode(events, source=source, mode="changelog", episode_id=name, halve_superseded=False)


def _changelog_events(notes: list[ChangelogNote], source: str) -> Iterator[DriftEvent]:
    number_of = {
        version: number for number, version in enumerate(dict.fromkeys(note.version for note in notes))
    }
    last: dict[str, int] = {}
    known: set[tuple[str, str]] = set()
    for note in notes:
        api = f"{source}:{_area(note)}"
        kind = kind_of_note(note)
        words = (api, re.sub(r"[\W_]+", "", note.text).casefold())
        kinds = ("duplicate",) if words in known else (kind,)
        known.add(words)
        number = number_of[note.version]
        observation = {
            "api": api,
            "section": note.section,
            "content": note.text,
            # By the words alone: what a policy sees must not depend on the label.
            "deprecated": _KINDS["deprecation"].search(note.text) is not None,
            "last_updated": note.date or "",
            "version": note.version,
        }
        distance = number - last.get(api, number)
        last[api] = number
        yield DriftEvent(observation=observation, kinds=kinds, version_distance=distance, date=note.date)


def kind_of_note(note: ChangelogNote) -> str:
    """Return the kind of a note by the rules of this module."""
    if _FORMS["mark"].search(note.raw):
        return "breaking"
    for heading in reversed(note.section.split(" > ")):
        # "Changed: Metrics" and ":bug: Bugfixes" name a kind in one of their parts.
        for part in (heading, *heading.split(":")):
            plain = " ".join(re.sub(r"[^\w ]+", " ", part).casefold().split())
            named = next((kind for kind, words in _HEADED.items() if words.fullmatch(plain)), None)
            if named is not None:
                return named
    for kind in ("internal", "docs"):
        if _HEADED[kind].search(note.section.casefold()):
            return kind
    said = _FORMS["negated"].sub(" ", _QUOTED.sub(" ", note.text))
    if _FORMS["says breaking"].search(said) or _FORMS["says breaking"].search(note.section):
        return "breaking"
    if _FORMS["says security"].search(said) or _FORMS["says security"].search(note.section):
        return "security"
    if _FORMS["begins with fix"].match(said):
        return "fix"
    own = next((kind for kind, words in _KINDS.items() if words.search(said)), None)
    # A note that names only a thing is about what its section says: "Remove `x` from:".
    section = _QUOTED.sub(" ", note.section.rpartition(" > ")[2])
    return own or next((kind for kind in ("removal", "renamed") if _KINDS[kind].search(section)), "other")


@cache
def _parser() -> Any:
    """Return the CommonMark parser. It is loaded when Markdown is read."""
    try:
        return import_module("markdown_it").MarkdownIt("commonmark")
    except ImportError:
        raise MissingExtra(feature="Reading Markdown", extra="bench") from None


def read_notes(content: str) -> Iterator[ChangelogNote]:
    """Yield the notes of a changelog in textual order. Those before the first release have no version."""
    tokens = _parser().parse(_FRONT_MATTER.sub("", content))
    titles = [
        (int(token.tag[1]), tokens[place + 1].content)
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    release_level = _release_level(titles)
    version, date, section = "", None, ""
    place = 0
    noted = False
    while place < len(tokens):
        token = tokens[place]
        if token.type == "heading_open" and token.level == 0:
            title = tokens[place + 1].content
            found = _VERSION.search(_ISO_DATE.sub("", _LINK.sub(r"\1", title)))
            if found is not None and int(token.tag[1]) <= release_level:
                version, date, section, noted = found[1], _date(title), "", False
            elif version:
                section = _clean(title)
        elif token.type == "paragraph_open" and token.level == 0:
            text = tokens[place + 1].content.strip()
            if (bold := _BOLD.fullmatch(text)) is not None:
                section = bold["title"].strip().rstrip(":")
            elif text.endswith(":") and len(text) <= INTRODUCTION_CHARS and _before_list(tokens, place):
                section = _clean(text)
            elif version and date is None and not noted and text.startswith("Released"):
                date = _date(text)
        elif token.type in ("bullet_list_open", "ordered_list_open") and token.level == 0:
            end = _closing(tokens, place)
            for path, raw in _items(tokens[place + 1 : end], ()):
                noted = True
                where = " > ".join(filter(None, [section, *path]))
                yield ChangelogNote(
                    version=version, date=date, heading=section, section=where, text=_clean(raw), raw=raw
                )
            place = end
        place += 1


def _before_list(tokens: Sequence[Any], place: int) -> bool:
    """Return whether a list follows this paragraph, which so introduces it."""
    return place + 3 < len(tokens) and tokens[place + 3].type in ("bullet_list_open", "ordered_list_open")


def _closing(tokens: Sequence[Any], start: int) -> int:
    """Return the place of the token that closes the one at ``start``."""
    level = tokens[start].level
    return next(
        place
        for place in range(start + 1, len(tokens))
        if tokens[place].level == level and tokens[place].nesting == -1
    )


def _items(tokens: Sequence[Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the items of a list, each with the introductions above it.

    An item that only introduces deeper ones becomes part of their section.
    """
    place = 0
    while place < len(tokens):
        end = _closing(tokens, place)
        texts, inner = [], []
        at = place + 1
        while at < end:
            if tokens[at].type in ("bullet_list_open", "ordered_list_open"):
                closing = _closing(tokens, at)
                inner.append(tokens[at + 1 : closing])
                at = closing
            elif tokens[at].type == "inline":
                texts.append(" ".join(tokens[at].content.split()))
            at += 1
        raw = " ".join(texts)
        text = _clean(raw)
        introduces = bool(inner) and (len(text) <= INTRODUCTION_CHARS or raw.endswith(":"))
        if text and not introduces and not _BOLD.fullmatch(raw):
            yield path, raw
        for one in inner:
            yield from _items(one, (*path, text.rstrip(":")) if introduces and text else path)
        place = end + 1


def _release_level(titles: Sequence[tuple[int, str]]) -> int:
    """Return the deepest level of a heading that is a release: 2, or the first level that names versions."""
    named = [level for level, title in titles if _VERSION.search(_ISO_DATE.sub("", title))]
    return max(2, min(named, default=2))


def _area(note: ChangelogNote) -> str:
    """Return what a note is about: its section, the first name like a class in it, or the library."""
    resource = _RESOURCE.search(note.raw)
    area = note.heading or (resource[1] if resource is not None else "")
    return re.sub(r"[^\w .-]+", "", area or "library").strip().casefold() or "library"


def _clean(text: str) -> str:
    return " ".join(_THANKS.sub("", _LINK.sub(r"\1", text)).split()).strip(" :(),")


def _date(title: str) -> str | None:
    if (iso := _ISO_DATE.search(title)) is not None:
        return f"{iso[1]}-{int(iso[2]):02}-{int(iso[3]):02}"
    if (words := _WORD_DATE.search(title)) is not None:
        return f"{words[3]}-{_MONTHS.index(words[1]) + 1:02}-{int(words[2]):02}"
    return None


def _newest_first(notes: list[ChangelogNote]) -> bool:
    """Return whether a changelog starts with its newest release, by its dates; without dates, True."""
    dates = [note.date for note in notes if note.date is not None]
    return not dates or dates[0] >= dates[-1]


def docs_episode(
    versions: Iterable[SourceVersion], *, source: str, skipped: ReportSkipped = ignore_skipped
) -> Episode:
    """Return what changed between versions, oldest first, as one stream.

    Each step shows a section's new state.

    A page that can't be read in a version is reported to ``skipped`` and counts as unchanged there.
    """
    first: dict[str, str] | None = None
    first_label, last_label = "", ""
    last: dict[str, str] = {}
    events: list[DriftEvent] = []
    shown_at: dict[str, int] = {}
    for number, version in enumerate(versions):
        new = _read_pages(version, source, last, skipped)
        last_label = version.label
        if first is None:
            first, first_label = new, version.label
        for api, kinds in section_changes(last, new).items() if number else ():
            distance = number - shown_at.get(api, number)
            shown_at[api] = number
            events.append(
                DriftEvent(
                    observation=_section_observation(api, new.get(api), version.label),
                    kinds=kinds,
                    version_distance=distance,
                    date=version.label,
                )
            )
        last = new
    if first is None or not events:
        raise InvalidValue(
            what="Episode", problem="nothing changed between these versions; give at least two"
        )
    count = min(len(first), round(BASELINE_SHARE * len(events)))
    step = max(1, len(first) // max(count, 1))
    baselines = [
        DriftEvent(
            observation=_section_observation(api, first[api], first_label),
            kinds=("baseline",),
            date=first_label,
        )
        for api in sorted(first)[::step][:count]
    ]
    return label_episode(
        baselines + events, source=source, mode="docs", episode_id=last_label, halve_superseded=True
    )


def section_changes(old: dict[str, str], new: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of change by section: existing sections by name, then removed ones."""
    old_texts, new_texts = set(old.values()), set(new.values())
    found = {}
    for api in sorted(new):
        kinds = _section_kinds(old.get(api), new[api], moved=api not in old and new[api] in old_texts)
        if kinds:
            found[api] = kinds
    removed = sorted(set(old) - set(new))
    left = len(old) - len(removed)
    reorganised = len(removed) >= REORGANISED_SECTIONS and left < REORGANISED_SHARE * len(old)
    everywhere = frozenset[int]().union(*map(_shingles, new.values())) if removed else frozenset[int]()
    for api in removed:
        moved = (
            reorganised
            or old[api] in new_texts
            or len(_plain_words(old[api])) < SECTION_WORDS
            or _share_in(old[api], everywhere) >= MOVED_SHARE
        )
        found[api] = ("edited",) if moved else ("section_removed",)
    return found


def _section_kinds(old: str | None, new: str, *, moved: bool) -> tuple[str, ...]:
    if old is None:
        return ("edited",) if moved else ("section_added",)
    if old == new:
        return ()
    kinds = ["warning_added"] if _warns_anew(old, new) else []
    before, after = _plain_words(old), _plain_words(new)
    if before == after:
        return ("formatted",)
    overlap = _same_words(old, new)
    lost = _names_in_code(old) - _names_in_code(new)
    if overlap < REWRITTEN and max(len(before), len(after)) >= REWRITTEN_WORDS and lost:
        kinds.append("rewritten")
    else:
        kinds.append("edited_major" if overlap < MAJOR else "edited")
    return tuple(kinds)


@lru_cache(maxsize=1 << 16)
def _shingles(text: str) -> frozenset[int]:
    """Return hashes of all runs of five words of a text; of a shorter one, of all its words."""
    words = _plain_words(text.casefold())
    starts = range(max(1, len(words) - SHINGLE_WORDS + 1))
    return frozenset(hash(tuple(words[start : start + SHINGLE_WORDS])) for start in starts)


def _share_in(text: str, everywhere: frozenset[int]) -> float:
    """Return the share of a text that the new version has somewhere."""
    own = _shingles(text)
    return len(own & everywhere) / len(own)


def _warns_anew(old: str, new: str) -> bool:
    """Return whether a text has more warnings than before, in lines that it did not have."""
    known = set(old.splitlines())
    added = "\n".join(line for line in new.splitlines() if line not in known)
    return _WARNS.search(added) is not None and len(_WARNS.findall(new)) > len(_WARNS.findall(old))


def _names_in_code(text: str) -> set[str]:
    """Return the names in the code of a text: in fences and between backquotes."""
    parts = re.split(r"^\s*(?:```|~~~).*$", text, flags=re.MULTILINE)
    code = parts[1::2] + _IN_CODE.findall("\n".join(parts[::2]))
    return {name for one in code for name in _NAME.findall(one)}


def _plain_words(text: str) -> list[str]:
    """Return the words of a text without the addresses of its links."""
    return re.findall(r"\w+", _ADDRESS.sub(" ", text))


def _same_words(left: str, right: str) -> float:
    """Return the share of words that two texts have in common, counting repetitions."""
    ours, theirs = Counter(re.findall(r"\w+", left)), Counter(re.findall(r"\w+", right))
    total = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / total if total else 1.0


def _read_pages(
    version: SourceVersion, source: str, last: dict[str, str], skipped: ReportSkipped
) -> dict[str, str]:
    """Return the sections of a version. Pages that can't be read are reported and stay as they were."""
    found, unreadable = sections_of(version, source)
    for page, why in unreadable.items():
        skipped(f"{version.label}: {page}", why)
    kept = {f"{source}:{Path(page).with_suffix('').as_posix()}" for page in unreadable}
    return {api: text for api, text in last.items() if api.partition("#")[0] in kept} | found


def sections_of(version: SourceVersion, source: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text of each section of each page by its name, and why pages can't be read, by their path.

    A notebook is a page with the text of its cells, so a page that becomes a notebook lives on.
    """
    found: dict[str, str] = {}
    unreadable = dict(version.unreadable)
    for name, content in sorted(version.files.items()):
        page = Path(name).with_suffix("").as_posix()
        if _NOTES_PAGE.search(Path(name).stem):
            # Its sections are notes of releases, which nothing replaces: the importer of changelogs reads
            # them.
            continue
        try:
            sections = _sections(_page_text(name, content))
        except (ValueError, RecursionError) as error:
            unreadable[name] = str(error)
            continue
        for anchor, text in sections.items():
            found[f"{source}:{page}#{anchor}"] = text
    return found, unreadable


def _page_text(name: str, content: bytes) -> str:
    """Return the text of a page. Of a notebook: Markdown cells as they are, code in fences."""
    text = content.decode("utf-8")
    if Path(name).suffix != NOTEBOOK:
        return text
    notebook = json.loads(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None or not isinstance(cells, list):
        raise ValueError("it is not a notebook: it has no cells")
    parts = []
    for cell in cells:
        source = cell.get("source", "") if isinstance(cell, dict) else ""
        joined = "".join(map(str, source)) if isinstance(source, list) else str(source)
        is_code = isinstance(cell, dict) and cell.get("cell_type") == "code"
        parts.append(f"```\n{joined}\n```" if is_code else joined)
    return "\n\n".join(parts)


@lru_cache(maxsize=1 << 12)
def _sections(text: str) -> dict[str, str]:
    """Return the texts under the headings of a page, by anchor; what stands above all of them is ``top``."""
    text = _FRONT_MATTER.sub("", text)
    lines = text.splitlines()
    tokens = _parser().parse("\n".join(lines))
    begins = [("top", 0)]
    anchors = {"top"}
    ends = []
    above: list[tuple[int, str]] = []
    headings = [
        (token, _heading_name(tokens[place + 1].content))
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and not token.level
    ]
    repeated = {name for name, count in Counter(name for _, name in headings).items() if count > 1}
    for token, name in headings:
        level = int(token.tag[1])
        above = [(depth, title) for depth, title in above if depth < level]
        # A heading that a page repeats ("Fixed") is told apart by the one above it; a number would shift.
        path = [title for _, title in above[-1:]] if name in repeated else []
        above.append((level, name))
        anchor, number = "/".join([*path, name]), 2
        while anchor in anchors:
            anchor, number = f"{'/'.join([*path, name])}-{number}", number + 1
        anchors.add(anchor)
        ends.append(token.map[0])
        begins.append((anchor, token.map[1]))
    found = {
        anchor: "\n".join(lines[start:end]).strip()
        for (anchor, start), end in zip(begins, [*ends, len(lines)], strict=True)
    }
    return {anchor: content for anchor, content in found.items() if content}


def _heading_name(title: str) -> str:
    marked = _ANCHOR.search(title)
    return marked[1] if marked is not None else re.sub(r"[\W_]+", "-", title.casefold()).strip("-")


def _section_observation(api: str, content: str | None, label: str) -> dict[str, Any]:
    return {
        "api": api,
        "section": api.partition(":")[2],
        "content": (content or "")[:CONTENT_CHARS],
        "deprecated": content is None or bool(_WARNS.search(content)),
        "last_updated": label,
        "status": "active" if content is not None else "removed",
    }
