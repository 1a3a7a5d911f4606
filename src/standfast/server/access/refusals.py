"""The access log: every refused call is told to the ledger, in a way that nobody can fill the disk with.

The first refusals of a minute are told one by one. Further ones are counted, by what was refused to whom and why, and
the counts are told when the minute is over: none is dropped, and a flood costs a dozen entries a minute. The groups are
bounded too; what fits into none is counted under the name of the rest. A process that is killed loses the counts of
the minute it is in; one that is stopped tells them first.
"""

import threading
from collections import Counter
from typing import Final

from standfast.clock import Clock
from standfast.errors import Forbidden, RateLimited, StandfastError, StoreError, Unauthenticated
from standfast.limits import MAX_REFUSAL_GROUPS, REFUSALS_TOLD_PER_MINUTE
from standfast.store.commit import Fact
from standfast.store.store import Store
from standfast.vocabulary import Value

ACCESS_KIND: Final = "access"
WINDOW_SECONDS: Final = 60.0
_SHOWN_CHARS: Final = 80
_THE_REST: Final = "(others)"
REFUSED_KINDS: Final = (Unauthenticated, Forbidden, RateLimited)


class Refusal(Value, frozen=True, kw_only=True):
    """A call that was refused: through which door, what was asked, by whom as far as is known, and why."""

    door: str
    act: str
    code: str
    problem: str
    key_id: str | None = None
    namespace: str | None = None
    peer: str | None = None

    @classmethod
    def of(
        cls,
        error: StandfastError,
        *,
        door: str,
        act: str,
        key_id: str | None = None,
        namespace: str | None = None,
        peer: str | None = None,
    ) -> "Refusal":
        """What an error refused. What callers chose is cut and made printable; secrets are in none of it."""
        return cls(
            door=door,
            act=act,
            code=error.code,
            problem=str(error.facts.get("problem", error.code)),
            key_id=key_id,
            namespace=None if namespace is None else _printable(namespace),
            peer=peer,
        )

    @property
    def group(self) -> tuple[str, str, str, str]:
        """With which others it is counted."""
        return self.door, self.act, self.code, self.key_id or ""


class Refusals:
    """Tells a ledger of refusals. Safe to share between threads."""

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or store.clock
        self._lock = threading.Lock()
        self._window_began = self._clock.monotonic()
        self._told = 0
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def note(self, refusal: Refusal) -> None:
        """Tell of a refusal now, or count it. A store that can't be written now refuses no less: the count is kept."""
        with self._lock:
            facts = self._over() if self._clock.monotonic() - self._window_began >= WINDOW_SECONDS else []
            if self._told < REFUSALS_TOLD_PER_MINUTE:
                self._told += 1
                facts.append(Fact.of(ACCESS_KIND, {"refused": refusal.as_json()}))
            else:
                self._count(refusal)
        self._tell(facts)

    def flush(self, *, only_if_over: bool = False) -> None:
        """Tell of what was counted; with ``only_if_over`` only once its minute has passed."""
        with self._lock:
            is_over = self._clock.monotonic() - self._window_began >= WINDOW_SECONDS
            facts = self._over() if is_over or not only_if_over else []
        self._tell(facts)

    def _count(self, refusal: Refusal) -> None:
        known = refusal.group in self._counts or len(self._counts) < MAX_REFUSAL_GROUPS
        self._counts[refusal.group if known else (_THE_REST, _THE_REST, _THE_REST, "")] += 1

    def _over(self) -> list[Fact]:
        """Begin a new window, and give what is to be told of the old one."""
        counted = [
            {"door": door, "act": act, "code": code, "key_id": key_id or None, "times": times}
            for (door, act, code, key_id), times in sorted(self._counts.items())
        ]
        self._counts.clear()
        self._told = 0
        self._window_began = self._clock.monotonic()
        return [Fact.of(ACCESS_KIND, {"refused_too": counted})] if counted else []

    def _tell(self, facts: list[Fact]) -> None:
        for fact in facts:
            try:
                self._store.append_fact(fact)
            except StoreError:
                with self._lock:
                    self._counts[("access log", "tell", "store", "")] += 1


def is_refusal(error: StandfastError) -> bool:
    """Whether an error is told in the access log: the caller was not let in, or not as far."""
    return isinstance(error, REFUSED_KINDS)


def _printable(text: str) -> str:
    return ascii(text[:_SHOWN_CHARS])[1:-1]
