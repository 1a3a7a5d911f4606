"""What ``memory.read`` hands back: the contract's ``ContextPackage``, its hash, its receipt, and its text for a prompt."""

from collections.abc import Sequence
from typing import Any, Final, Literal, Self

from standfast.canon import canonical_bytes, fingerprint_of_bytes
from standfast.errors import InvalidValue
from standfast.limits import MAX_PACKAGE_BYTES
from standfast.recall.fit import Fit, Fitted, per_item_tokens, token_cost
from standfast.recall.rendering import Excerpt, rendered
from standfast.recall.request import CONTROLLER_VERSION, MemoryControllerInput
from standfast.recall.scoring import as_number
from standfast.vocabulary import Value

RECEIPT_KIND: Final = "memory.read"


class PackageQuery(Value, frozen=True, kw_only=True):
    """What was asked; the hash is that of its normal wording."""

    raw: str
    query_hash: str


class PackageBudget(Value, frozen=True, kw_only=True):
    """What could be spent, and what was."""

    max_excerpt_tokens: int
    used_excerpt_tokens: int
    remaining_excerpt_tokens: int
    per_item_max_excerpt_tokens: int
    max_items: int

    def __post_init__(self) -> None:
        self._require(
            0 <= self.used_excerpt_tokens <= self.max_excerpt_tokens, "more was used than there was"
        )
        self._require(
            self.remaining_excerpt_tokens == self.max_excerpt_tokens - self.used_excerpt_tokens,
            "what remains must be what was not used",
        )


class SelectedItem(Value, frozen=True, kw_only=True):
    """A record that was selected, and what is shown of it."""

    memory_id: str
    record_hash: str
    store_path: str
    score: float
    excerpt: str
    excerpt_tokens: int

    @classmethod
    def of(cls, fitted: Fitted) -> Self:
        """What a package tells of it."""
        candidate = fitted.candidate
        return cls(
            memory_id=candidate.record.memory_id,
            record_hash=candidate.record.record_hash,
            store_path=candidate.store_path,
            score=as_number(candidate.score),
            excerpt=fitted.excerpt,
            excerpt_tokens=fitted.excerpt_tokens,
        )


class DroppedItem(Value, frozen=True, kw_only=True):
    """A record, or a line that holds none, that was not selected, and why."""

    memory_id: str
    record_hash: str
    store_path: str
    reason: str


class Selection(Value, frozen=True, kw_only=True):
    """Selected items in rank order; dropped ones in full, or as a count for each reason."""

    selected: tuple[SelectedItem, ...]
    dropped: tuple[DroppedItem, ...] | dict[str, int]


class RecallReceipt(Value, frozen=True, kw_only=True):
    """What a ledger may know of a successful read: that it happened, and what proves it. Nothing that was remembered."""

    kind: Literal["memory.read"] = RECEIPT_KIND
    data: dict[str, Any]


class ContextPackage(Value, frozen=True, kw_only=True):
    """The answer. ``as_json`` is the contract's object; ``package_hash`` covers all of it but itself."""

    query: PackageQuery
    budget: PackageBudget
    selection: Selection
    package_hash: str
    controller_version: Literal["phase6-v1"] = CONTROLLER_VERSION

    @classmethod
    def of(
        cls,
        request: MemoryControllerInput,
        fit: Fit,
        dropped: Sequence[DroppedItem] | dict[str, int],
    ) -> Self:
        """The package of what was selected and dropped for a request."""
        budget = request.budget
        query = PackageQuery(
            raw=request.query, query_hash=fingerprint_of_bytes(request.normal_query.encode())
        )
        spent = PackageBudget(
            max_excerpt_tokens=budget.max_excerpt_tokens,
            used_excerpt_tokens=fit.used_tokens,
            remaining_excerpt_tokens=budget.max_excerpt_tokens - fit.used_tokens,
            per_item_max_excerpt_tokens=per_item_tokens(budget),
            max_items=budget.max_items,
        )
        selection = Selection(
            selected=tuple(map(SelectedItem.of, fit.selected)),
            dropped=dropped if isinstance(dropped, dict) else tuple(dropped),
        )
        unsealed = cls(query=query, budget=spent, selection=selection, package_hash="")
        return cls(query=query, budget=spent, selection=selection, package_hash=unsealed.computed_hash())

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """A package that was written as JSON; ``InvalidValue`` if it is not what its hash says."""
        package = super().from_json(plain)
        if package.computed_hash() != package.package_hash:
            raise InvalidValue(what="ContextPackage", problem="its content does not have its package_hash")
        return package

    def as_json(self) -> dict[str, Any]:
        """The contract's object."""
        plain = super().as_json()
        selection = plain["selection"]
        plain["selection"] = {
            name: list(part) if isinstance(part, tuple) else part for name, part in selection.items()
        }
        return plain

    def computed_hash(self) -> str:
        """The SHA-256 of the canonical JSON of everything but the hash."""
        plain = self.as_json()
        del plain["package_hash"]
        return fingerprint_of_bytes(canonical_bytes(plain, limit_bytes=MAX_PACKAGE_BYTES))

    @property
    def text(self) -> str:
        """The excerpts for a prompt: each fenced and attributed, by marks that no excerpt can forge."""
        items = self.selection.selected
        return rendered(
            [Excerpt(item.memory_id, item.store_path, item.record_hash, item.excerpt) for item in items],
            self.package_hash,
        )

    @property
    def text_tokens(self) -> int:
        """What ``text`` costs, by the same estimator as the excerpts; the budget is for excerpts alone."""
        return token_cost(self.text)

    def receipt(self, request: MemoryControllerInput) -> RecallReceipt:
        """What may be written into a ledger: four facts, and nothing that was remembered."""
        return RecallReceipt(
            data={
                "query_hash": self.query.query_hash,
                "store_paths": list(request.store_paths),
                "selected_count": len(self.selection.selected),
                "package_hash": self.package_hash,
            }
        )
