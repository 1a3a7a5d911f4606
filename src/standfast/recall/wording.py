"""Texts as ``memory.read`` compares them: trimmed, white space collapsed, in lower case as of Unicode 14.0.

What counts as white space has not changed since then.
"""

from standfast.casing import lowered


def collapsed(text: str) -> str:
    """The text trimmed, each run of white space one space."""
    return " ".join(text.split())


def normal_wording(text: str) -> str:
    """The form in which a query is hashed, and in which it meets the texts of records."""
    return collapsed(lowered(text))


def derived_terms(query: str) -> tuple[str, ...]:
    """The words of a query that have at least two characters, each once, in the order of their first appearance."""
    return tuple(dict.fromkeys(word for word in normal_wording(query).split(" ") if len(word) >= 2))


def given_terms(terms: tuple[str, ...]) -> tuple[str, ...]:
    """Terms that the caller chose, in the form in which they can match, each once; an empty one matches nothing."""
    normal = (normal_wording(term) for term in terms)
    return tuple(dict.fromkeys(term for term in normal if term))
