"""What a search of the LangGraph store looks at: filters, indexed paths and embeddings."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from langgraph.store.base import IndexConfig
from langgraph.store.base.embed import ensure_embeddings, get_text_at_path

from standfast.adapters.langgraph_items import StoredItem
from standfast.errors import InvalidValue
from standfast.recall.analysis import DEFAULT_LANGUAGE, analyzer_of, words_of

_MAX_EMBEDDED_TEXTS: Final = 1 << 16
_WHOLE: Final = ("$",)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def matches(value: object, wanted: object) -> bool:
    """Whether a value satisfies a filter: equal in every named part, or as its operators say. A name may be a path with dots."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, other) for name, other in wanted.items())
        return isinstance(value, Mapping) and all(
            matches(_at(value, name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        is_list = isinstance(value, list | tuple) and len(value) == len(wanted)
        return is_list and all(map(matches, value, wanted))  # type: ignore[call-overload]  # It is a list here.
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
    """The texts at the paths that are searched: the item's own, or those of the store; none if it is not to be searched."""
    if item.index is False:
        return []
    paths = item.index if isinstance(item.index, tuple) else fields or _WHOLE
    return [text for path in paths for text in get_text_at_path(item.value, path)]


def shown_by_index(item: StoredItem, fields: Sequence[str] | None, query: str) -> bool:
    """Whether a word of the query stands in the item's indexed texts, if only some of its texts are indexed."""
    if item.index is None and not fields:
        return True
    wanted = set(_terms(query))
    return any(not wanted.isdisjoint(_terms(text)) for text in indexed_texts(item, fields))


def _terms(text: str) -> list[str]:
    return analyzer_of(DEFAULT_LANGUAGE).terms_of(words_of(text))


class EmbeddedTexts:
    """Ranks items by the embeddings of their texts. Vectors are kept in memory, as many as ``_MAX_EMBEDDED_TEXTS``.

    Args:
        config: LangGraph's configuration, with ``embed``: an ``Embeddings`` object, a function, or a provider's name.
    """

    def __init__(self, config: IndexConfig) -> None:
        self._embeddings = ensure_embeddings(config["embed"])
        self._dims = config.get("dims")
        self._vectors: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}

    def ranked(
        self, query: str, items: Sequence[StoredItem], fields: Sequence[str] | None
    ) -> list[tuple[float | None, StoredItem]]:
        """The items by the similarity of their best text, then those without indexed text, which have no score."""
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
