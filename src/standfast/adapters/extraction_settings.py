"""The section ``[extraction]`` of the settings: the operator's model that finds facts in conversations, and
what may be spent on it.

The budget is one for all namespaces and processes of a store. It is a temporary row of the store for each
day, so a restart does not begin it anew. A call is paid for before it is made, by the most that it may cost,
and what it did not cost is given back: the budget is never exceeded, only by what a model counts differently.
"""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from functools import cached_property
from math import ceil, inf
from typing import TYPE_CHECKING, Final

import msgspec

from standfast.clock import Clock
from standfast.errors import ExtractionBudgetSpent, StoreBusy
from standfast.limits import DEFAULT_OUTPUT_TOKENS, MAX_SINGLE_CALL_ATTEMPTS
from standfast.memory.extraction import ExtractedFact, ExtractionSpending, KnownFact
from standfast.memory.messages import SessionMessage
from standfast.records.conversion import decoded
from standfast.records.vocabulary import Value
from standfast.settings import Settings, SettingsSection, refuse
from standfast.store.protocol import TemporaryRow, TemporaryRows
from standfast.store.store import Store

if TYPE_CHECKING:
    # Slow to import, and only needed once a model is asked.
    from standfast.adapters.extraction import Extractor
    from standfast.optimize.providers.adapter import (
        ModelReply,
        ModelRequest,
        ProviderAdapter,
        ProviderConfig,
    )

SPENDING_KIND: Final = "spending"
"""The kind of the temporary rows that hold what was spent."""
PROVIDERS: Final = ("openai", "anthropic", "scripted")
_KEEP_SECONDS: Final = 3 * 86_400.0
_ANSWERS_KEPT: Final = 256
_BYTES_PER_TOKEN: Final = 3
"""Fewer than models have on average, so that the cost of a call is rather thought too high."""


class ExtractionSettings(SettingsSection, frozen=True, kw_only=True):
    """Which model finds facts in conversations for ``add`` with ``extract``, and what it may cost a day."""

    provider: str = ""
    """Who is asked: ``openai`` (or a compatible server), ``anthropic`` or ``scripted``. Empty: nobody.

    The key of the provider is in its own variable, such as ``OPENAI_API_KEY``.
    """

    model: str = ""
    """The model's name at the provider."""

    base_url: str = ""
    """The URL of a server with the provider's API; empty for the provider's own."""

    script: str = ""
    """The file of rules of the scripted provider."""

    cache: str = ""
    """A folder for the model's answers, by content; empty keeps the newest ones in memory only.

    ``forget`` does not reach it.
    """

    max_output_tokens: int = DEFAULT_OUTPUT_TOKENS
    """The most tokens of an answer."""

    always: bool = False
    """Whether every ``add`` to the server looks for facts, in the background, also if it does not ask."""

    calls_per_day: int = 1_000
    """How often the model may be asked on a day (UTC), for the whole store."""

    cost_per_day: float = 0.0
    """What the calls of a day may cost, in the currency of the prices. 0: there is no such limit."""

    input_price: float = 0.0
    """What a million tokens of a request cost."""

    output_price: float = 0.0
    """What a million tokens of an answer cost."""

    def check(self, settings: Settings) -> None:  # noqa: ARG002  # It depends on no other setting.
        """Refuse an unknown provider, one without a model, and a budget that is none."""
        if self.provider and self.provider not in PROVIDERS:
            known = ", ".join(PROVIDERS)
            refuse("extraction.provider", f"there is no provider {self.provider!r:.40}; there are {known}")
        if self.provider == "scripted" and not self.script:
            refuse("extraction.script", "the scripted provider needs a file of rules")
        if self.provider in ("openai", "anthropic") and not self.model:
            refuse("extraction.model", f"name the model of {self.provider} to ask")
        if self.always and not self.provider:
            refuse("extraction.always", "nobody is named who could be asked; set extraction.provider")
        if self.calls_per_day < 1 or self.max_output_tokens < 1:
            name = "calls_per_day" if self.calls_per_day < 1 else "max_output_tokens"
            refuse(f"extraction.{name}", "it must be 1 or more; an empty provider switches extraction off")
        for name in ("cost_per_day", "input_price", "output_price"):
            if not 0 <= getattr(self, name) < inf:
                refuse(f"extraction.{name}", "it must be a number from 0 on")
        if self.cost_per_day and not (self.input_price or self.output_price):
            refuse("extraction.cost_per_day", "it needs input_price and output_price, per million tokens")


def open_extractor(settings: Settings, store: Store) -> "SetExtractor | None":
    """The extractor that the settings describe; None if they name no provider."""
    section = settings.section(ExtractionSettings)
    return SetExtractor(section, store) if section.provider else None


class SetExtractor:
    """The extractor of the settings. The provider is opened when it is first asked."""

    def __init__(self, section: ExtractionSettings, store: Store) -> None:
        self._section = section
        self._budget = DailyBudget(store.temporary, store.clock, section)
        self.always = section.always

    @cached_property
    def _extractor(self) -> "Extractor":
        from standfast.adapters.extraction import Extractor  # noqa: PLC0415  # See above.
        from standfast.govern.judge.model_floor import AnswerFolder  # noqa: PLC0415  # As above.
        from standfast.optimize.opening import open_provider  # noqa: PLC0415  # As above.

        chosen = self._section
        provider = open_provider(
            chosen.provider,
            model=chosen.model or None,
            base_url=chosen.base_url or None,
            script=chosen.script or None,
            max_output_tokens=chosen.max_output_tokens,
        )
        answers = AnswerFolder(chosen.cache) if chosen.cache else _NewestAnswers()
        return Extractor(_PaidProvider(provider, self._budget), answers=answers)

    @property
    def extractor_id(self) -> str:
        """That of the extractor which asks the provider."""
        return self._extractor.extractor_id

    def extract(
        self,
        messages: Sequence[SessionMessage],
        *,
        scope: str,
        before: Sequence[SessionMessage] = (),
        known: Sequence[KnownFact] = (),
    ) -> list[ExtractedFact]:
        """Ask the provider, unless the answer is kept. ``ExtractionBudgetSpent`` if it may not be asked."""
        return self._extractor.extract(messages, scope=scope, before=before, known=known)

    def spent(self) -> ExtractionSpending:
        """What was spent today, and what may be."""
        return self._budget.spent()


class _NewestAnswers(dict[str, str]):
    """The answers that were given last; a server runs for long and must not keep them all."""

    def __setitem__(self, key: str, answer: str) -> None:
        super().__setitem__(key, answer)
        while len(self) > _ANSWERS_KEPT:
            self.pop(next(iter(self)), None)


class _Spent(Value, frozen=True, kw_only=True):
    """What the calls of a day took, those that are under way by the most that they may take."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, calls: int, input_tokens: int, output_tokens: int) -> "_Spent":
        return _Spent(
            calls=self.calls + calls,
            input_tokens=self.input_tokens + input_tokens,
            output_tokens=self.output_tokens + output_tokens,
        )


class DailyBudget:
    """What extraction may spend on a day, for all processes of a store. Any thread may use it."""

    def __init__(self, rows: TemporaryRows, clock: Clock, section: ExtractionSettings) -> None:
        self._rows, self._clock, self._section = rows, clock, section

    def reserve(self, input_tokens: int, output_tokens: int) -> str:
        """Pay for a call by the most that it may take; return the day it is paid on.

        Raises:
            ExtractionBudgetSpent: There is not enough left.
        """
        now = self._clock.now()
        day = now.date().isoformat()
        self._change(day, 1, input_tokens, output_tokens, now=now)
        return day

    def give_back(self, day: str, input_tokens: int, output_tokens: int) -> None:
        """Give back tokens that a call did not take. The call itself counts."""
        self._change(day, 0, -input_tokens, -output_tokens)

    def spent(self) -> ExtractionSpending:
        """What was spent today, and what may be."""
        day = self._clock.now().date().isoformat()
        spent, _ = self._read(day)
        return ExtractionSpending(
            day=day,
            calls=spent.calls,
            cost=round(self._cost(spent), 6),
            max_calls=self._section.calls_per_day,
            max_cost=self._section.cost_per_day or None,
        )

    def _change(
        self, day: str, calls: int, input_tokens: int, output_tokens: int, now: datetime | None = None
    ) -> None:
        """Change the row of a day; with ``now``, only if it stays within the budget."""
        for _ in range(MAX_SINGLE_CALL_ATTEMPTS):
            before, version = self._read(day)
            after = before.plus(calls, input_tokens, output_tokens)
            if now is not None and not self._allows(after):
                raise self._is_spent(before, now)
            row = TemporaryRow(
                kind=SPENDING_KIND,
                row_id=f"extraction-{day}",
                content=msgspec.json.encode(after),
                keep_seconds=_KEEP_SECONDS,
                version=(version or 0) + 1,
            )
            if self._rows.put(row, replaces=version):
                return
        raise StoreBusy(waited_seconds=0)

    def _read(self, day: str) -> tuple[_Spent, int | None]:
        row = self._rows.get(SPENDING_KIND, f"extraction-{day}")
        return (_Spent(), None) if row is None else (decoded(row.content, _Spent), row.version)

    def _allows(self, spent: _Spent) -> bool:
        limit = self._section.cost_per_day
        return spent.calls <= self._section.calls_per_day and (not limit or self._cost(spent) <= limit)

    def _cost(self, spent: _Spent) -> float:
        own = self._section
        return (spent.input_tokens * own.input_price + spent.output_tokens * own.output_price) / 1e6

    def _is_spent(self, spent: _Spent, now: datetime) -> ExtractionBudgetSpent:
        again = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
        return ExtractionBudgetSpent(
            day=now.date().isoformat(),
            calls=spent.calls,
            cost=round(self._cost(spent), 6),
            again=again.strftime("%Y-%m-%dT%H:%MZ"),
            wait_seconds=(again - now).total_seconds(),
        )


class _PaidProvider:
    """A provider whose calls are paid for from a budget."""

    def __init__(self, provider: "ProviderAdapter", budget: DailyBudget) -> None:
        self._provider, self._budget = provider, budget

    @property
    def config(self) -> "ProviderConfig":
        """The model's configuration."""
        return self._provider.config

    def complete(self, request: "ModelRequest") -> "ModelReply":
        """Pay for a request, send it, and take back what it did not cost."""
        size = sum(len(one.text.encode()) for one in request.messages)
        size += len(msgspec.json.encode(request.output_schema))
        input_tokens, output_tokens = ceil(size / _BYTES_PER_TOKEN), self.config.max_output_tokens
        day = self._budget.reserve(input_tokens, output_tokens)
        used_in = used_out = 0
        try:
            reply = self._provider.complete(request)
            used_in, used_out = reply.usage.input_tokens, reply.usage.output_tokens
        finally:
            self._budget.give_back(day, input_tokens - used_in, output_tokens - used_out)
        return reply
