"""The options of commands that ask something of memory, made from the fields of the request."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
import msgspec
from msgspec import inspect as types

from standfast.records.requests import defaults_of, descriptions_of, local_fields
from standfast.records.vocabulary import JsonScalar, Value

OPTION_OF_FIELD: Final = {
    "tags": "--tag",
    "refs": "--ref",
    "scopes": "--scope",
    "bands": "--band",
    "now_utc": "--now",
    "rehearse": "--dry-run",
}
"""The options whose name is not that of the field: most of them are given once for each item of a list."""
_SOURCE: Final = re.compile(r'\{"kind": "([^"]+)", "id": "([^"]+)"\}')


def request_options(
    request: type[Value], *, but: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a request. It gets those that were given as ``fields``.

    A field that is a filter has an option for each of its own fields.

    Args:
        but: The fields that the command takes in another way.
    """
    options = _options_of(request, {*but, *local_fields(request)})

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(*args: Any, **given: Any) -> None:
            fields: dict[str, Any] = {}
            for path, (_, read) in options.items():
                value = given.pop("_".join(path))
                if value is None or value == ():
                    continue
                place = fields if len(path) == 1 else fields.setdefault(path[0], {})
                place[path[-1]] = read(value)
            command(*args, fields=fields, **given)

        for option, _ in reversed(options.values()):
            call = option(call)
        return call

    return decorate


def _options_of(
    request: type[msgspec.Struct], but: set[str], path: tuple[str, ...] = ()
) -> dict[tuple[str, ...], tuple[Callable[..., Any], Callable[[Any], Any]]]:
    """The option of each field, and what makes the field of the texts that were given."""
    found: dict[tuple[str, ...], tuple[Callable[..., Any], Callable[[Any], Any]]] = {}
    defaults, descriptions = defaults_of(request), descriptions_of(request)
    info = types.type_info(request)
    assert isinstance(info, types.StructType)
    for field in info.fields:
        own, kind = (*path, field.name), _plain(field.type)
        if field.name in but:
            continue
        if isinstance(kind, types.StructType):
            names = {*but, *(one.name for one in info.fields)}
            found |= _options_of(kind.cls, names, own)
            continue
        read, how = _form_of(kind, OPTION_OF_FIELD.get(field.name, f"--{field.name.replace('_', '-')}"))
        name, default = how.pop("name"), defaults[field.name]
        if isinstance(kind, types.BoolType) and default is None:
            # It has three states: yes, no, and as it is.
            name += f"/--no-{name.removeprefix('--')}"
        if isinstance(default, str | int) and default != "" and not isinstance(default, bool):
            how |= {"default": default, "show_default": True}
        # The examples are those of a program; here a source is given as KIND:ID.
        text = _SOURCE.sub(r"\1:\2", descriptions[field.name])
        text += " Repeatable." if how.get("multiple") else ""
        found[own] = click.option(name, "_".join(own), help=text, **how), read
    return found


def _plain(kind: types.Type) -> types.Type:
    """The type of a field without limits and without None."""
    if isinstance(kind, types.Metadata):
        return _plain(kind.type)
    if isinstance(kind, types.UnionType):
        (kind,) = [one for one in kind.types if not isinstance(one, types.NoneType)]
        return _plain(kind)
    return kind


def _form_of(kind: types.Type, name: str) -> tuple[Callable[[Any], Any], dict[str, Any]]:
    """How a field of a type is given on the command line, and what makes the field of it."""
    match kind:
        case types.BoolType():
            return bool, {"name": name, "is_flag": True, "default": None}
        case types.IntType():
            return int, {"name": name, "type": click.IntRange(kind.ge, kind.le)}
        case types.EnumType():
            return str, {"name": name, "type": click.Choice([one.value for one in kind.cls])}
        case types.VarTupleType():
            read, how = _form_of(_plain(kind.item_type), name)
            return lambda given: [read(one) for one in given], {**how, "multiple": True}
        case types.DictType(value_type=types.UnionType()):
            how = {"name": name, "multiple": True, "metavar": "NAME=VALUE"}
            return functools.partial(metadata_of, name=name), how
        case types.DictType():
            return functools.partial(source_of, name=name), {"name": name, "metavar": "KIND:ID"}
        case _:
            return str, {"name": name}


def source_of(text: str, *, name: str) -> dict[str, str]:
    """A source that was given as KIND:ID."""
    kind, colon, own = text.partition(":")
    if not (kind and colon and own):
        raise click.UsageError(f"{name} must be KIND:ID, such as doc:handbook#4, not {text!r}")
    return {"kind": kind, "id": own}


def metadata_of(fields: Sequence[str], *, name: str) -> dict[str, JsonScalar]:
    """Metadata given as NAME=VALUE. A value that is a JSON number, true, false or null is that, else text."""
    metadata: dict[str, JsonScalar] = {}
    for field in fields:
        own, equals, text = field.partition("=")
        if not (own and equals):
            raise click.UsageError(f"{name} must be NAME=VALUE, such as plan=gold, not {field!r}")
        try:
            metadata[own] = msgspec.json.decode(text.encode(), type=float | int | bool | None)
        except msgspec.MsgspecError:
            metadata[own] = text
    return metadata
