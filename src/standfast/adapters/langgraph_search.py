"""The items of one snapshot of a LangGraph store, and a search's filters, indexed paths and embeddings."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
from langgraph.store.base import IndexConfig
from langgraph.store.base.embed import ensure_embeddings, get_text_at_path

from standfast.adapters.langgraph_items import (
    LONG_PREFIX,
    ItemPath,
    NamespaceScopes,
    StoredItem,
    subject_of,
    subject_prefix,
)
from standfast.errors import InvalidValue
from standfast.limits import MAX_RECALL_ITEMS, MAX_RECALL_TOKENS, MAX_SCOPES
from standfast.memory import Memory
from standfast.recall.analysis import DEFAULT_LANGUAGE, analyzer_of, words_of
from standfast.recall.lexical import shares_of_best
from standfast.records.canon import parse
from standfast.records.origins import Origin
from standfast.records.requests import RECALLED_BANDS, RecallRequest
from standfast.records.rows import RowKind
from standfast.records.scopes import name_in, prefix_in, prefix_of, scoped_key
from standfast.records.vocabulary import Band
from standfast.store.protocol import Version
from standfast.store.stored_records import record_of

_MAX_EMBEDDED_TEXTS: Final = 1 << 16
_WHOLE: Final = ("$",)
_FIRST_RANKED: Final = 64
_Rank = tuple[bool, bool, tuple[int, int, str]]
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def matches(value: object, wanted: object) -> bool:
    """Whether a value fits a filter: equal in every named part, or by its operators. Names may be paths."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, other) for name, other in wanted.items())
        return isinstance(value, Mapping) and all(
            matches(_at(value, name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(wanted):
            return False
        return all(map(matches, value, wanted))
    return value == wanted


def _at(value: Mapping[str, Any], name: str) -> object:
    """The part of a value at a name or, if it has none of this name, at a path such as ``deep.colour``."""
    if name in value or "." not in name:
        return value.get(name)
    part: object = value
    for step in name.split("."):
        part = part.get(step) if isinstance(part, Mapping) else None
    return part


def _compare(value: Any, name: str, other: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool((value == other) == (name == "$eq"))
    if name not in _COMPARISONS:
        known = ", ".join(("$eq", "$ne", *_COMPARISONS))
        raise InvalidValue(
            what="filter", problem=f"{name!r:.40} is not an operator; the operators are {known}"
        )
    try:
        return _COMPARISONS[name](float(value), float(other))
    except (TypeError, ValueError):
        # A value that is not a number is neither greater nor smaller.
        return False


def indexed_texts(item: StoredItem, fields: Sequence[str] | None) -> list[str]:
    """The texts at the paths that are searched: the item's own, or the store's; none if not searched."""
    if item.index is False:
        return []
    paths = item.index if isinstance(item.index, tuple) else fields or _WHOLE
    return [text for path in paths for text in get_text_at_path(item.value, path)]


def shown_by_index(item: StoredItem, fields: Sequence[str] | None, query: str) -> bool:
    """Whether a word of the query is in the item's indexed texts, if only some of its texts are indexed."""
    if item.index is None and not fields:
        return True
    wanted = set(_terms(query))
    return any(not wanted.isdisjoint(_terms(text)) for text in indexed_texts(item, fields))


def _terms(text: str) -> list[str]:
    return analyzer_of(DEFAULT_LANGUAGE).terms_of(words_of(text))


class EmbeddedTexts:
    """Ranks items by the embeddings of their texts.

    Vectors are kept in memory, as many as ``_MAX_EMBEDDED_TEXTS``.

    Args:
        config: LangGraph's configuration, with ``embed``: an ``Embeddings`` object, a function, or a
            provider's name.
    """

    def __init__(self, config: IndexConfig) -> None:
        self._embeddings = ensure_embeddings(config["embed"])
        self._dims = config.get("dims")
        self._vectors: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}

    def ranked(
        self, query: str, items: Sequence[StoredItem], fields: Sequence[str] | None
    ) -> list[tuple[float | None, StoredItem]]:
        """The items by the similarity of their best text, then those without indexed text (no score)."""
        texts = [indexed_texts(item, fields) for item in items]
        self._embed(sorted({text for some in texts for text in some}))
        asked = _normal(self._embeddings.embed_query(query))
        scored: list[tuple[float, StoredItem]] = []
        unscored: list[tuple[float | None, StoredItem]] = []
        for item, some in zip(items, texts, strict=True):
            if some:
                scored.append((max(float(self._vectors[text] @ asked) for text in some), item))
            else:
                unscored.append((None, item))
        scored.sort(key=lambda one: (-one[0], one[1].namespace, one[1].key))
        return [*scored, *unscored]

    def _embed(self, texts: Sequence[str]) -> None:
        missing = [text for text in texts if text not in self._vectors]
        if len(self._vectors) + len(missing) > _MAX_EMBEDDED_TEXTS:
            self._vectors.clear()
            missing = list(texts)
        if not missing:
            return
        vectors = self._embeddings.embed_documents(missing)
        if len(vectors) != len(missing) or any(self._dims not in (None, len(one)) for one in vectors):
            problem = f"embed must give one vector of {self._dims} numbers for each text"
            raise InvalidValue(what="index", problem=problem)
        self._vectors |= {text: _normal(one) for text, one in zip(missing, vectors, strict=True)}


def _normal(vector: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(array))
    return array / length if length else array


class SnapshotItems:
    """The items of one snapshot.

    Args:
        fields: The paths that searches look at, for items that name none.
        embedded: Ranks by embeddings; None to rank by words.
        hides_at: Items that have expired by then are not shown; None to show all.
        scopes: Which scope the items of a namespace are in.
    """

    def __init__(
        self,
        memory: Memory,
        at: int,
        *,
        fields: tuple[str, ...] | None,
        embedded: EmbeddedTexts | None,
        hides_at: datetime | None,
        scopes: NamespaceScopes,
    ) -> None:
        self._memory = memory
        self.at = at
        self._fields = fields
        self._embedded = embedded
        self._hides_at = hides_at
        self.scopes = scopes
        self._ttls: dict[str, tuple[datetime, float]] | None = None
        self.to_refresh: dict[str, tuple[datetime, float]] = {}

    def ttl_of(self, scope: str, subject: str) -> tuple[datetime, float] | None:
        """When an item expires, and how many minutes it is kept; None if it does not expire."""
        if self._ttls is None:
            prefix = prefix_of(RowKind.TTL)
            rows = self._memory.store.scan(self._memory.namespace, prefix=prefix, at=self.at)
            contents = {row.key: parse(row.content or b"") for row in rows}
            self._ttls = {
                name: (datetime.fromisoformat(one["expires_at"]), float(one["minutes"]))
                for name, one in contents.items()
            }
        return self._ttls.get(scoped_key(RowKind.TTL, scope, subject))

    def is_expired(self, item: StoredItem) -> bool:
        """Whether an item has expired by now."""
        ttl = self.ttl_of(item.scope, item.subject)
        return ttl is not None and ttl[0] <= (self._hides_at or self._memory.store.clock.now())

    def was_read(self, item: StoredItem) -> None:
        """Note that reading an item moves the time at which it expires."""
        if (ttl := self.ttl_of(item.scope, item.subject)) is not None:
            self.to_refresh[scoped_key(RowKind.TTL, item.scope, item.subject)] = ttl

    def _is_shown(self, item: StoredItem | None) -> bool:
        return item is not None and (self._hides_at is None or not self.is_expired(item))

    def get(self, namespace: tuple[str, ...], key: str) -> StoredItem | None:
        """The item at a path; None if there is none."""
        found = self.versions(namespace, key)
        return found[0] if found and self._is_shown(found[0]) else None

    def versions(self, namespace: tuple[str, ...], key: str) -> list[StoredItem]:
        """What is stored at a path, the one that counts first; see ``_rank``."""
        scope, subject, found = self.scopes.of(namespace), subject_of(namespace, key), list[Version]()
        for band in RECALLED_BANDS:
            name = scoped_key(band, scope, subject)
            found += self._memory.store.read(self._memory.namespace, [name], at=self.at).values()
            # A band with a byte budget holds several numbered versions of a subject. What an untrusted source
            # says about it has an id of its own.
            for mark in "@~":
                found += self._memory.store.scan(self._memory.namespace, prefix=f"{name}{mark}", at=self.at)
        items = ((StoredItem.of(record_of(version)), version) for version in found)
        ranked = [(self._rank(item, version), item) for item, version in items if item is not None]
        return [item for _, item in sorted(ranked, key=lambda one: one[0], reverse=True)]

    def below(self, namespace_prefix: tuple[str, ...]) -> list[StoredItem]:
        """The items in and below a namespace, by namespace and key: of each, the version that counts."""
        best: dict[ItemPath, tuple[_Rank, StoredItem]] = {}
        for band in RECALLED_BANDS:
            for version in self._rows_below(band, namespace_prefix):
                item = StoredItem.of(record_of(version))
                if item is None or item.namespace[: len(namespace_prefix)] != namespace_prefix:
                    continue
                path, rank = (item.namespace, item.key), self._rank(item, version)
                # In another scope than its own, it is what somebody else wrote under its name.
                is_item = item.scope == self.scopes.of(item.namespace)
                if is_item and (path not in best or best[path][0] < rank):
                    best[path] = rank, item
        return [best[path][1] for path in sorted(best) if self._is_shown(best[path][1])]

    def _rank(self, item: StoredItem, version: Version) -> _Rank:
        """Which of the records of one path counts: law before the rest; what somebody untrusted put only if
        nobody else did; then the newest.
        """
        return prefix_in(version.key) == Band.VAULT, item.trust is not Origin.UNTRUSTED, _age(version)

    def _rows_below(self, band: Band, namespace_prefix: tuple[str, ...]) -> Iterator[Version]:
        """The rows that may hold an item in or below a namespace."""
        store, namespace = self._memory.store, self._memory.namespace
        subjects, own = (subject_prefix(namespace_prefix), LONG_PREFIX), self.scopes.of(namespace_prefix)
        for subject in subjects:
            yield from store.scan(namespace, prefix=scoped_key(band, own, subject), at=self.at)
        if not self.scopes.is_known_from(namespace_prefix):
            outer = prefix_of(band, self.scopes.outer) if self.scopes.outer else prefix_of(band)
            for row in store.scan(namespace, prefix=outer, at=self.at):
                if name_in(row.key).startswith(subjects):
                    yield row

    def ranked(
        self, query: str, items: list[StoredItem], count: int
    ) -> list[tuple[float | None, StoredItem]]:
        """The best of these items with their scores; then those that match nothing or are not searched.

        By the embeddings of the store's ``index`` if it brings some; otherwise as recall ranks.
        """
        if self._embedded is not None:
            return self._embedded.ranked(query, items, self._fields)
        wanted = {item.memory_id: item for item in items if shown_by_index(item, self._fields, query)}
        view, most = self._memory.at(self.at), min(max(count, _FIRST_RANKED), MAX_RECALL_ITEMS)
        while True:
            request = RecallRequest(
                query=query,
                tokens=MAX_RECALL_TOKENS,
                max_items=most,
                scopes=_recalled_scopes(items),
                least_origin=Origin.UNTRUSTED,
            )
            candidates = view.answer(request).explanation.items
            scores = shares_of_best([candidate.as_json()["score"] for candidate in candidates])
            found: dict[str, float | None] = {
                candidate.memory_id: score
                for candidate, score in zip(candidates, scores, strict=True)
                if candidate.memory_id in wanted
            }
            if len(found) >= min(count, len(wanted)) or len(candidates) < most or most == MAX_RECALL_ITEMS:
                break
            most = min(4 * most, MAX_RECALL_ITEMS)
        others = [(None, item) for item in items if item.memory_id not in found]
        return [*((score, wanted[memory_id]) for memory_id, score in found.items()), *others]


def _recalled_scopes(items: Sequence[StoredItem]) -> tuple[str, ...]:
    """The scopes of some items; if they are too many for a recall, those above them."""
    scopes = tuple({item.scope for item in items})
    if len(scopes) > MAX_SCOPES:
        scopes = tuple({scope.partition("/")[0] for scope in scopes})
    return scopes


def _age(version: Version) -> tuple[int, int, str]:
    return version.memory_snapshot_id, len(version.key), version.key
