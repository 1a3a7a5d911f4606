"""What stands beside memory on a server: recorded runs, and overrides of prompts."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from standfast.client.wire import Wire
from standfast.optimize.prompts.overrides import STABLE, PromptOverride, SectionOverride
from standfast.optimize.prompts.template import PromptTemplate
from standfast.server.operations.schemas import TracesPage, TraceSummary
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison


class RemoteTraces:
    """The runs that left a trace. Reading them takes a key of an operator or auditor for all namespaces."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self) -> Iterator[TraceSummary]:
        """All of them, by the names of their files."""
        cursor: str | None = None
        while True:
            asked = {} if cursor is None else {"cursor": cursor}
            page = TracesPage.from_json(self._wire.ask("GET", f"/v1/traces?{urlencode(asked)}", safe=True))
            yield from page.traces
            cursor = page.next
            if cursor is None:
                return

    def get(self, run_id: str) -> Trace:
        """The trace of a run. Its hash is checked here too, so that nothing on the way has changed it."""
        return Trace.from_document(self._wire.ask("GET", f"/v1/traces/{quote(run_id, safe='')}", safe=True))

    def compare(self, left: str, right: str) -> Comparison:
        """Whether two runs did the same, or every difference."""
        asked = urlencode({"left": left, "right": right})
        return Comparison.from_json(self._wire.ask("GET", f"/v1/traces/compare?{asked}", safe=True))


class RemotePrompts:
    """Overrides of prompts. A change names the version that was read (0: there is nothing yet), and is not sent twice."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def get(self, ns: str, prompt_key: str, *, tag: str = STABLE) -> PromptOverride:
        """What a tag overrides; ``NotFound`` if nothing."""
        path = f"{_path(ns, prompt_key)}?{urlencode({'tag': tag})}"
        return PromptOverride.from_json(self._wire.ask("GET", path, safe=True))

    def put(
        self,
        prompt: PromptTemplate,
        overrides: Sequence[SectionOverride],
        *,
        if_version: int,
        tag: str = STABLE,
    ) -> PromptOverride:
        """Set all that a tag overrides, if that still is its version, else ``VersionConflict``."""
        body = {
            "prompt": prompt.as_json(),
            "overrides": [override.as_json() for override in overrides],
            "tag": tag,
        }
        return self._changed("PUT", _path(prompt.ns, prompt.key), body, if_version)

    def rollback(self, prompt: PromptTemplate, *, if_version: int, tag: str = STABLE) -> PromptOverride:
        """Make a tag what it was before its last change; again undoes it."""
        path = f"{_path(prompt.ns, prompt.key)}/rollback"
        return self._changed("POST", path, {"prompt": prompt.as_json(), "tag": tag}, if_version)

    def _changed(self, method: str, path: str, body: dict[str, Any], if_version: int) -> PromptOverride:
        return PromptOverride.from_json(self._wire.ask(method, path, body, if_version=if_version))


def _path(ns: str, prompt_key: str) -> str:
    return f"/v1/prompts/{quote(ns, safe='')}/{quote(prompt_key, safe='')}"
