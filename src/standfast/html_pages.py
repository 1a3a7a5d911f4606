"""HTML pages that are one file each: templates of a package, and what differs between two texts."""

import difflib
import re
from collections.abc import Callable
from typing import Any, Final

from standfast.errors import MissingExtra
from standfast.limits import MAX_COMPARED_WORDS

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


def page_from(
    package: str, template: str, *, extra: str, filters: dict[str, Callable[..., Any]], **values: Any
) -> str:
    """Return a page that needs no server and no network.

    Args:
        package: Whose folder ``templates`` has the template.
        extra: The extra that brings Jinja, for the error if it is not installed.
        filters: What the template uses besides ``percent``.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  # Part of an extra.
    except ImportError:
        raise MissingExtra(feature="An HTML page", extra=extra) from None
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"percent": lambda share, digits=1: f"{share:.{digits}%}", **filters}
    environment.globals |= {"word_pieces": word_pieces}
    return environment.get_template(template).render(values)


def word_pieces(before: str, after: str) -> list[tuple[str, str]]:
    """The difference of two texts: pieces that are "same", "removed" or "added".

    Long texts are compared by lines, very long ones as a whole.
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > MAX_COMPARED_WORDS:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if len(old) + len(new) > MAX_COMPARED_WORDS:
        old, new = [before], [after]
    pieces = list[tuple[str, str]]()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for what, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        removed, added = "".join(old[old_from:old_to]), "".join(new[new_from:new_to])
        if what == "equal":
            pieces.append(("same", removed))
            continue
        pieces += [(kind, text) for kind, text in (("removed", removed), ("added", added)) if text]
    return pieces
