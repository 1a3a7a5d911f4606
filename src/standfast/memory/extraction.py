"""Facts from conversations: what a model makes of messages, judged and remembered like everything else.

The model is behind a protocol; ``adapters/extraction.py`` has the one that asks a provider. A fact cites its messages, so it is trusted no more
than the least of them. Facts are remembered in runs whose ids are made from the messages: adding a conversation again asks nobody and
changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from standfast.canon import fingerprint
from standfast.errors import InvalidValue
from standfast.limits import EXTRACTED_MESSAGES
from standfast.memory.idempotency import CallLog
from standfast.memory.run import Run
from standfast.memory.sessions import SessionMessage
from standfast.scopes import is_within
from standfast.store.store import Store
from standfast.vocabulary import Remembered, Value

CITED_KIND: Final = "message"
"""The kind of the refs by which a fact cites messages."""


class ExtractedFact(Value, frozen=True, kw_only=True):
    """One fact that a model found in messages.

    Args:
        text: The fact, as one plain statement.
        cites: The positions of the messages that say so; at least one.
        subject: What it is about. A later fact of the same subject replaces it.
        scope: Where it belongs, if that is below the scope of the conversation.
    """

    text: str
    cites: tuple[int, ...]
    subject: str | None = None
    scope: str | None = None


class FactExtractor(Protocol):
    """Finds facts in messages. Its answers for equal messages should be equal, so that a repeated call finds the same."""

    @property
    def extractor_id(self) -> str:
        """Names it and everything that can change its answers. It is the source of the facts."""
        ...

    def extract(self, messages: Sequence[SessionMessage], *, scope: str) -> Sequence[ExtractedFact]:
        """Return the facts in accepted messages of one conversation, oldest first. Every failure is a ``StandfastError``."""
        ...


class FactWriter:
    """Remembers the facts of one conversation.

    Args:
        open_run: Opens a writing run with an id.
    """

    def __init__(
        self, store: Store, namespace: str, *, scope: str, session: str, open_run: Callable[[str], Run]
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._scope = scope
        self._session = session
        self._open_run = open_run

    def remember(self, messages: Sequence[SessionMessage], extractor: FactExtractor) -> Iterator[Remembered]:
        """Yield the verdicts on the facts, page by page of messages. Each page is one commit."""
        said = [message for message in messages if message.text is not None]
        for start in range(0, len(said), EXTRACTED_MESSAGES):
            yield from self._remember_page(said[start : start + EXTRACTED_MESSAGES], extractor)

    def _remember_page(
        self, messages: Sequence[SessionMessage], extractor: FactExtractor
    ) -> list[Remembered]:
        said = [[one.position, one.speaker, one.text] for one in messages]
        digest = fingerprint(["extraction/v1", self._scope, self._session, extractor.extractor_id, said])
        run_id = f"extract-{digest[:32]}"
        earlier = CallLog(self._store, self._namespace, run_id)
        if earlier.receipt is not None:
            return earlier.answers
        facts = extractor.extract(messages, scope=self._scope)
        with self._open_run(run_id) as run:
            answers = [self._remember_one(run, one, messages, extractor.extractor_id) for one in facts]
        return run.answers or answers

    def _remember_one(
        self, run: Run, fact: ExtractedFact, messages: Sequence[SessionMessage], by: str
    ) -> Remembered:
        cited = [message for message in messages if message.position in fact.cites]
        scope = self._scope if fact.scope is None else fact.scope
        if not cited or {message.position for message in cited} != set(fact.cites):
            problem = (
                f"{fact.text!r:.80} cites {list(fact.cites)}, which are not all messages that it was shown"
            )
            raise InvalidValue(what="extracted fact", problem=problem)
        if not is_within(scope, self._scope):
            problem = f"{fact.text!r:.80} is for scope {scope}, but its messages are in {self._scope}"
            raise InvalidValue(what="extracted fact", problem=problem)
        refs: list[dict[str, Any]] = [
            {"kind": CITED_KIND, "id": memory_id, "scope": self._scope}
            for message in cited
            for memory_id in message.memory_ids
        ]
        return run.remember(
            fact.text, subject=fact.subject, scope=scope, source={"kind": "agent", "id": by}, refs=refs
        )
