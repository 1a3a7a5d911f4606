"""Examples of requests, for the OpenAPI document and the page at /docs.

They are data: ``examples.json`` has a whole body of each operation, and a value of each field, by its name
or, where that means something else elsewhere, by ``Schema.field``.
"""

from importlib.resources import files
from typing import Any, Final

from standfast.records.canon import parse

_EXAMPLES: Final[Any] = parse(files("standfast.server.http").joinpath("examples.json").read_bytes())
BODIES: Final[dict[str, dict[str, Any]]] = _EXAMPLES["bodies"]


def field_examples(schema: str, field: str) -> list[Any]:
    """A value of a field of a request, if there is one. A test demands it; the server does not need it.

    Args:
        schema: The name of the request's class.
    """
    known = _EXAMPLES["fields"]
    return [known[name] for name in (f"{schema}.{field}", field) if name in known][:1]
