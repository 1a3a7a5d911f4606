"""Episodes from changelogs in Markdown: one step for each note, oldest release first.

A release is a heading with a version number; a section is a deeper heading, a line in bold, or a note that only introduces
deeper ones. A note's kind is the first of these that holds:

    breaking      it stands under "breaking changes", or is marked as breaking, or with a warning sign
    security      its section is about security, or it names a CVE or a vulnerability
    internal,docs its section says so
    deprecation   it says that something is deprecated
    removal       it says that something is removed, dropped or no longer supported
    fix, internal, docs, added, changed    by its words, in that order
    other         anything else

The same text in the same section again is a duplicate.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import Touch, labelled
from standfast.errors import BadFile

_VERSION: Final = re.compile(r"\bv?(\d+\.\d+(?:\.\d+)*(?:[-.]?[A-Za-z]+[\w.]*)?)")
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_WORD_DATE: Final = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b"
)
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905  # Reads as a calendar does.
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_BULLET: Final = re.compile(r"(\s*)[-*+]\s+(.*)$")
_BOLD: Final = re.compile(r"\s*\*\*([^*]+)\*\*:?\s*$")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_THANKS: Final = re.compile(r"\(?(?:Thanks to|thanks|by)?\s*@[\w-]+[^)]*\)?[!.]?|\[?#\d+\]?")
_RESOURCE: Final = re.compile(r"`(?:[a-z]\w*\.)?([A-Z]\w+)")
INTRODUCTION_CHARS: Final = 60

_KINDS: Final = (
    ("deprecation", re.compile(r"\bdeprecat", re.IGNORECASE)),
    (
        "removal",
        re.compile(
            r"\bremov(?:e|es|ed|al|ing)\b|\bdrop(?:s|ped|ping)?\b|\bno longer\b|\bdelet(?:e|ed|es)\b",
            re.IGNORECASE,
        ),
    ),
    ("fix", re.compile(r"\bfix(?:e[sd])?\b|\bbugs?\b|\bcorrect(?:ed|s)?\b", re.IGNORECASE)),
    (
        "internal",
        re.compile(r"\brefactor|\bCI\b|\btests?\b|\bchore\b|\binternal|\blint|\bbump\b", re.IGNORECASE),
    ),
    ("docs", re.compile(r"\bdocs?\b|\bdocumentation\b|\bREADME\b|\btypos?\b", re.IGNORECASE)),
    ("added", re.compile(r"\badd(?:s|ed|ing)?\b|\bnew\b|\bintroduc|\bsupport\b|\ballow", re.IGNORECASE)),
    ("changed", re.compile(r"\bchang(?:e|es|ed)\b|\bupdat|\brenam|\bmov(?:e|ed)\b|\bimprov", re.IGNORECASE)),
)
_BREAKING: Final = re.compile(r"⚠|\bbreaking changes?\b|\*\*\(?breaking", re.IGNORECASE)
_SECURITY: Final = re.compile(r"\bCVE-\d|\bvulnerabilit|\bsecurity\b", re.IGNORECASE)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One note of a changelog."""

    version: str
    date: str | None
    heading: str
    section: str
    text: str
    raw: str


def changelog_episode(content: str, *, source: str, name: str) -> Episode:
    """The notes of a changelog as one stream, oldest release first."""
    notes = list(read_notes(content))
    if not notes:
        raise BadFile(file=name, problem="there is no release with a version number and notes in it")
    releases = list(dict.fromkeys(note.version for note in notes))
    if _newest_first(notes):
        order = {version: place for place, version in enumerate(reversed(releases))}
        notes.sort(key=lambda note: order[note.version])
    return labelled(
        list(_touches(notes, source)),
        source=source,
        mode="changelog",
        episode_id=name,
        halve_superseded=False,
    )


def _touches(notes: list[Note], source: str) -> Iterator[Touch]:
    number_of = {
        version: number for number, version in enumerate(dict.fromkeys(note.version for note in notes))
    }
    last: dict[str, int] = {}
    said: set[tuple[str, str]] = set()
    for note in notes:
        area = _area(note)
        api = f"{source}:{area}"
        kind = kind_of_note(note)
        words = (api, re.sub(r"[\W_]+", "", note.text).casefold())
        kinds = ("duplicate",) if words in said else (kind,)
        said.add(words)
        number = number_of[note.version]
        observation = {
            "api": api,
            "section": note.section,
            "content": note.text,
            "deprecated": kind == "deprecation",
            "last_updated": note.date or "",
            "version": note.version,
        }
        distance = number - last.get(api, number)
        last[api] = number
        yield Touch(observation=observation, kinds=kinds, version_distance=distance, date=note.date)


def kind_of_note(note: Note) -> str:
    """The kind of a note, by the rules above."""
    if _BREAKING.search(note.section) or _BREAKING.search(note.raw):
        return "breaking"
    if _SECURITY.search(note.section) or _SECURITY.search(note.raw):
        return "security"
    if re.search(r"\binternal|\bchore|\btests?\b", note.section, re.IGNORECASE):
        return "internal"
    if re.search(r"\bdocs?\b|\bdocumentation\b", note.section, re.IGNORECASE):
        return "docs"
    return next((kind for kind, words in _KINDS if words.search(note.text)), "other")


def read_notes(content: str) -> Iterator[Note]:
    """The notes of a changelog, as they stand in it."""
    lines = content.splitlines()
    version, date, sections = "", None, ""
    bullets: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        under = lines[number + 1] if number + 1 < len(lines) else ""
        heading = _HEADING.match(line)
        setext = bool(line.strip()) and re.fullmatch(r"\s*(?:-{3,}|={3,})\s*", under) is not None
        if heading is not None or setext:
            title = heading[2] if heading is not None else line.strip()
            found = _VERSION.search(_ISO_DATE.sub("", title))
            yield from _notes(bullets, version, date, sections)
            bullets = []
            if found is not None and (heading is None or len(heading[1]) <= 2):
                version, date, sections = found[1], _date(title), ""
            elif version:
                sections = _clean(title)
        elif (bold := _BOLD.match(line)) is not None and not _BULLET.match(line):
            yield from _notes(bullets, version, date, sections)
            bullets, sections = [], bold[1].strip()
        elif (bullet := _BULLET.match(line)) is not None:
            bullets.append((len(bullet[1].expandtabs(4)), bullet[2].strip()))
        elif version and date is None and not bullets and re.match(r"\s*Released\b", line):
            date = _date(line)
        elif bullets and line.strip() and line[:1].isspace():
            indent, text = bullets[-1]
            bullets[-1] = (indent, f"{text} {line.strip()}")
    yield from _notes(bullets, version, date, sections)


def _notes(bullets: list[tuple[int, str]], version: str, date: str | None, section: str) -> Iterator[Note]:
    """Bullets as notes. One that only introduces deeper ones becomes part of their section."""
    if not version:
        return
    path: list[tuple[int, str]] = []
    for place, (indent, raw) in enumerate(bullets):
        path = [(depth, text) for depth, text in path if depth < indent]
        deeper = place + 1 < len(bullets) and bullets[place + 1][0] > indent
        text = _clean(raw)
        if deeper and (len(text) <= INTRODUCTION_CHARS or raw.endswith(":")):
            path.append((indent, text.rstrip(":")))
        elif text and not raw.startswith("#") and not _BOLD.match(raw):
            where = " > ".join(filter(None, [section, *(step for _, step in path)]))
            yield Note(version=version, date=date, heading=section, section=where, text=text, raw=raw)


def _area(note: Note) -> str:
    """What a note is about: its section, or the first thing that it names like a class, or the library itself."""
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


def _newest_first(notes: list[Note]) -> bool:
    """Whether a changelog begins with its newest release, by its dates; without dates, it does."""
    dates = [note.date for note in notes if note.date is not None]
    return not dates or dates[0] >= dates[-1]
