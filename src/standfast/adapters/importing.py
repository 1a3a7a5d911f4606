"""Import: what another system remembers, judged and remembered here; and export, in forms that others read.

    report = import_file(memory, "conversations.json", file_format="chatgpt", scope="user/ada")

Facts are committed in parts. The id of a part's run is made from the file's digest and the part's number, and
is an idempotency key; the messages of a conversation are known by session and position. So an import that was
interrupted at any instant is continued by starting it again, and nothing is stored twice.

An export has accepted memory as

    jsonl       every record of law and long-term memory, whole, one a line; ``memory.read`` and ``import``
                read it
    mem0        the JSON of mem0's ``get_all``
    langgraph   the items of a ``StandfastStore``, one a line
    markdown    a note: a heading for each scope, a line for each record
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from standfast.adapters.import_formats import (
    ImportedConversation,
    ImportedFact,
    ImportedItem,
    Reader,
    Unreadable,
    read_chatgpt,
    read_claude,
    read_jsonl,
    read_langgraph,
    read_letta,
    read_markdown,
    read_mem0,
)
from standfast.adapters.judging_workers import judged_by_workers
from standfast.adapters.langgraph_items import StoredItem, exact_json
from standfast.entity_ids import as_memory
from standfast.errors import InvalidValue, MessageConflict
from standfast.limits import (
    IMPORT_PART_FACTS,
    MAX_IMPORT_PROBLEMS,
    MAX_JUDGING_WORKERS,
    MAX_RUN_ITEMS,
    READ_CHUNK_BYTES,
)
from standfast.memory import Memory
from standfast.recall.filters import UNREVIEWED_VERDICTS
from standfast.records.canon import canonical_bytes, fingerprint, fingerprint_of_bytes
from standfast.records.origins import Origin, checked_origin, lowest
from standfast.records.scopes import ALL_SCOPES, SHARED, checked_scope
from standfast.records.vocabulary import Band, Record, Remembered, Value, Verdict, VisibilityMode

WORKFLOW: Final = "import"
READERS: Final[Mapping[str, Reader]] = {
    "jsonl": read_jsonl,
    "mem0": read_mem0,
    "langgraph": read_langgraph,
    "chatgpt": read_chatgpt,
    "claude": read_claude,
    "letta": read_letta,
    "markdown": read_markdown,
}
"""The reader of each format, by its name."""
Progress = Callable[[int, int], None]
"""Takes how many items are done, and how many there are."""
# The version of what the readers make of a file; a change of it makes an interrupted import start anew.
_VERSION: Final = "import/v4"
_ACCEPTED: Final = (Verdict.SEAL, Verdict.SABAR)
_COUNTS: Final = ("accepted", "known", "needs_review", "rejected", "resumed")


class ImportProblem(Value, frozen=True, kw_only=True):
    """Something not accepted: its place, the verdict, and why. Without a verdict it can't be read."""

    where: str
    verdict: Verdict | None
    reasons: tuple[str, ...]


class ImportReport(Value, frozen=True, kw_only=True):
    """What became of a file: how many facts and messages were read, and what the judge said.

    ``problems`` has the first ones that were rejected or need review. ``resumed`` counts the facts that an
    earlier start of the same import had committed; they are part of the other counts.
    """

    file_format: str
    dry_run: bool
    read: int = 0
    accepted: int = 0
    known: int = 0
    needs_review: int = 0
    rejected: int = 0
    resumed: int = 0
    problems: tuple[ImportProblem, ...] = ()

    @property
    def summary(self) -> str:
        """One line for people."""
        counts = (
            f"{self.accepted} accepted, {self.known} known, {self.needs_review} to review, {self.rejected}"
            " rejected"
        )
        if self.dry_run:
            return f"{self.read} read: {counts}. Nothing was stored."
        return f"{self.read} read: {counts}." + (
            f" {self.resumed} of them were imported by an earlier start." if self.resumed else ""
        )


def import_file(
    memory: Memory,
    path: str | Path,
    *,
    file_format: str,
    scope: str = SHARED,
    dry_run: bool = False,
    max_origin: Origin | str = Origin.ORDINARY,
    progress: Progress | None = None,
    workers: int = 1,
    open_memory: Callable[[], Memory] | None = None,
) -> ImportReport:
    """Judge everything in a file, and remember what is accepted.

    Args:
        path: The file. For ``markdown`` it may be a folder.
        file_format: One of ``READERS``.
        scope: Where to put what names no scope of its own.
        dry_run: Judge, and store nothing.
        max_origin: The most that anything in the file may be trusted, whatever it says about its sources.
        workers: How many processes judge. From two on they are started for it; ``memory`` commits what they
            judged, in the order of the file. It pays from ten thousand lines on.
        open_memory: Opens the same memory in a worker process, such as ``partial(Memory.open, "agent.db")``.
            It is pickled, so it can't be a lambda, nor a function of the script itself.

    Raises:
        InvalidValue: The file is not of this format. Single lines that can't be read are in the report.
    """
    if file_format not in READERS:
        known = ", ".join(READERS)
        raise InvalidValue(
            what="format", problem=f"{file_format!r:.40} is unknown; it must be one of {known}"
        )
    checked_scope(scope)
    if type(workers) is not int or not 1 <= workers <= MAX_JUDGING_WORKERS:
        problem = f"it must be 1 to {MAX_JUDGING_WORKERS}, not {workers!r:.40}"
        raise InvalidValue(what="workers", problem=problem)
    if workers > 1 and open_memory is None:
        problem = 'several open the memory too; give open_memory=partial(Memory.open, "agent.db")'
        raise InvalidValue(what="workers", problem=problem)
    file = Path(path)
    _require_file(file, file_format)
    digest, lines = _digest(file)
    items: Iterable[ImportedItem] = READERS[file_format](file, scope)
    total = lines
    if file_format != "jsonl":
        items = list(items)
        total = sum(_size(one) for one in items)
    highest = checked_origin(max_origin, what="max_origin")
    asked = fingerprint([_VERSION, digest, file_format, scope, highest.value])
    importer = _Importer(run_prefix=f"import-{asked[:32]}", dry_run=dry_run, max_origin=highest)
    found = _Counted()
    if workers > 1 and open_memory is not None:
        judged = judged_by_workers(memory, importer.take, _parts(items), workers, open_memory)
    else:
        judged = (importer.take(memory, part) for part in _parts(items))
    for part in judged:
        found.add(part)
        if progress is not None:
            progress(found.read, max(total, found.read))
    return ImportReport(
        file_format=file_format,
        dry_run=dry_run,
        read=found.read,
        problems=tuple(found.problems),
        **found.counts,
    )


class _ImportPart(NamedTuple):
    """A part of a file: facts for one commit, with their number among such parts, or a conversation."""

    number: int
    content: ImportedConversation | list[ImportedFact | Unreadable]


@dataclass(slots=True)
class _Counted:
    """What became of a part of a file, or of all parts so far."""

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTS, 0)))
    problems: list[ImportProblem] = field(default_factory=list)

    @property
    def read(self) -> int:
        """How many facts and messages were read."""
        return sum(number for name, number in self.counts.items() if name != "resumed")

    def add(self, part: "_Counted") -> None:
        """Count a further part."""
        self.counts.update(part.counts)
        self.problems += part.problems[: MAX_IMPORT_PROBLEMS - len(self.problems)]

    def count(
        self,
        where: str,
        verdict: Verdict | None,
        reasons: tuple[str, ...],
        *,
        known: bool = False,
        waits: bool = False,
        says_nothing: bool = False,
        times: int = 1,
    ) -> None:
        """Count a fact or message by its verdict. Without one, it can't be read."""
        if known or says_nothing:
            self.counts["known"] += times
        elif verdict in _ACCEPTED and not waits:
            self.counts["accepted"] += times
        else:
            is_rejected = verdict is None or verdict is Verdict.VOID
            self.counts["rejected" if is_rejected else "needs_review"] += times
            if len(self.problems) < MAX_IMPORT_PROBLEMS:
                self.problems.append(ImportProblem(where=where, verdict=verdict, reasons=tuple(reasons)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Importer:
    """Judges and stores the parts of a file."""

    run_prefix: str
    dry_run: bool
    max_origin: Origin

    def take(self, memory: Memory, part: _ImportPart) -> _Counted:
        """Judge and store a conversation, or facts: in one commit each what may be trusted as far as anything
        in the file, what is ordinary, and what is untrusted.
        """
        found = _Counted()
        if isinstance(part.content, ImportedConversation):
            self._add(memory, part.content, found)
            return found
        facts = [one for one in part.content if isinstance(one, ImportedFact)]
        answered: dict[Origin, Iterator[Remembered]] = {}
        # What an export holds is trusted no more than what it cites, which comes before it in this order too.
        for origin in (Origin.TRUSTED, Origin.ORDINARY, Origin.UNTRUSTED):
            chosen = [one for one in facts if self._highest(one) is origin]
            if chosen:
                key = f"{self.run_prefix}-{part.number}-{origin.value}"
                answers, replayed = memory.retry(
                    partial(self._remember, memory, chosen, key, origin), key=key
                )
                found.counts["resumed"] += len(chosen) if replayed else 0
                answered[origin] = iter(answers)
        for one in part.content:
            if isinstance(one, Unreadable):
                found.count(one.where, None, (one.problem,))
            else:
                answer = next(answered[self._highest(one)])
                found.count(
                    one.where,
                    answer.verdict,
                    answer.reasons,
                    known=answer.known is not None,
                    waits=answer.proposal_id is not None,
                )
        return found

    def _highest(self, fact: ImportedFact) -> Origin:
        return lowest([self.max_origin, fact.highest])

    def _remember(
        self, memory: Memory, facts: list[ImportedFact], run_id: str, max_origin: Origin
    ) -> tuple[list[Remembered], bool]:
        run = memory.run(
            workflow=WORKFLOW,
            mode=VisibilityMode.BUFFERED_WRITE,
            run_id=None if self.dry_run else run_id,
            max_origin=max_origin,
        )
        with run:
            answers = [run.remember_request(fact.request) for fact in facts]
            if self.dry_run:
                run.discard()
        if run.receipt is not None and run.receipt.replayed:
            return run.answers or answers, True
        return answers, False

    def _add(self, memory: Memory, conversation: ImportedConversation, found: _Counted) -> None:
        """Add a conversation, in as many calls as it takes."""
        position = 0
        for first in range(0, len(conversation.messages), MAX_RUN_ITEMS):
            try:
                added = memory.add(
                    conversation.messages[first : first + MAX_RUN_ITEMS],
                    scope=conversation.scope,
                    session=conversation.session,
                    position=position,
                    metadata=conversation.metadata,
                    workflow=WORKFLOW,
                    max_origin=self.max_origin,
                    rehearse=self.dry_run,
                )
            except (InvalidValue, MessageConflict) as error:
                # How many places its messages take is not known, so those after them have none.
                times = len(conversation.messages) - first
                found.count(conversation.where, None, (str(error),), times=times)
                return
            for one in added.messages:
                where = f"{conversation.where}, message {one.position + 1}"
                found.count(
                    where, one.verdict, one.reasons, known=one.known, says_nothing=one.verdict is None
                )
            position = added.messages[-1].position + 1


def _parts(items: Iterable[ImportedItem]) -> Iterator[_ImportPart]:
    """Conversations one by one, and the rest in parts of one commit each."""
    number, facts = 0, list[ImportedFact | Unreadable]()
    for one in items:
        if isinstance(one, ImportedConversation):
            yield _ImportPart(number, one)
            continue
        facts.append(one)
        if len(facts) == IMPORT_PART_FACTS:
            yield _ImportPart(number, facts)
            number, facts = number + 1, []
    if facts:
        yield _ImportPart(number, facts)


def _require_file(file: Path, file_format: str) -> None:
    if file.is_dir() and file_format != "markdown":
        raise InvalidValue(what=str(file), problem="only markdown notes are imported from a folder")
    if file.exists() and not (file.is_file() or file.is_dir()):
        problem = "it is read more than once, which a pipe or a device can't be; save it as a file first"
        raise InvalidValue(what=str(file), problem=problem)


def _size(item: ImportedItem) -> int:
    return len(item.messages) if isinstance(item, ImportedConversation) else 1


def _digest(path: Path) -> tuple[str, int]:
    """The digest of a file, or of all notes in a folder with their names, and the number of lines."""
    if path.is_dir():
        files = sorted(path.rglob("*.md"))
        named = [[file.relative_to(path).as_posix(), _digest(file)[0]] for file in files]
        return fingerprint(named), 0
    digest, lines = "", 0
    with path.open("rb") as file:
        while chunk := file.read(READ_CHUNK_BYTES * 16):
            digest = fingerprint_of_bytes(digest.encode() + chunk)
            lines += chunk.count(b"\n")
    return digest, lines


_EXPORTED_BANDS: Final = (Band.LEDGER, Band.VAULT)


def export_text(
    memory: Memory, *, file_format: str, scope: str = ALL_SCOPES, at: int | None = None
) -> Iterator[str]:
    """The pieces of an export, each ending at a line's end.

    Args:
        file_format: One of ``WRITERS``.
        scope: What to export, with all below it; by default everything.
        at: The snapshot; by default the newest.
    """
    if file_format not in WRITERS:
        known = ", ".join(WRITERS)
        raise InvalidValue(
            what="format", problem=f"{file_format!r:.40} can't be written; it must be one of {known}"
        )
    snapshot = memory.store.head() if at is None else at
    view = memory.at(snapshot)
    records = (
        record
        for band in _EXPORTED_BANDS
        for record in view.records(band=band, scope=scope)
        if record.verdict not in UNREVIEWED_VERDICTS
    )
    return WRITERS[file_format](records)


def _jsonl(records: Iterator[Record]) -> Iterator[str]:
    for record in records:
        yield canonical_bytes(record.as_json()).decode() + "\n"


def _mem0(records: Iterator[Record]) -> Iterator[str]:
    yield '{"results": ['
    separator = "\n"
    for record in records:
        yield f"{separator}{exact_json(as_memory(record))}"
        separator = ",\n"
    yield "\n]}\n"


def _langgraph(records: Iterator[Record]) -> Iterator[str]:
    for record in records:
        item = StoredItem.of(record)
        if item is not None:
            plain = {
                "namespace": list(item.namespace),
                "key": item.key,
                "value": item.value,
                "created_at": item.created_at.isoformat(),
                "updated_at": item.updated_at.isoformat(),
                "trust": item.trust.value,
            }
            yield f"{exact_json(plain)}\n"


def _markdown(records: Iterator[Record]) -> Iterator[str]:
    scope = None
    for record in records:
        # A note is a document when it is imported: what it says would be trusted more than its source.
        if record.origin is Origin.UNTRUSTED:
            continue
        if record.scope != scope:
            yield f"{'' if scope is None else chr(10)}# {record.scope}\n\n"
            scope = record.scope
        facts = [(record.ts_utc or "")[:10], record.speaker, _source(record), record.subject]
        shown = ", ".join(fact for fact in facts if fact)
        text = "\n  ".join(record.text.splitlines())
        yield f"- {text}\n" + (f"  <!-- {shown.replace('--', '- -')} -->\n" if shown else "")


def _source(record: Record) -> str:
    source = record.source or {}
    return f"{source['kind']}:{source['id']}" if "kind" in source and "id" in source else ""


WRITERS: Final[Mapping[str, Callable[[Iterator[Record]], Iterator[str]]]] = {
    "jsonl": _jsonl,
    "mem0": _mem0,
    "langgraph": _langgraph,
    "markdown": _markdown,
}
"""The writer of each format, by its name."""
