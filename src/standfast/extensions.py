"""What packages outside the core bring to it: commands, sections of settings, console pages and models.

The core imports none of these packages. Each describes itself by one ``Extension``, which is found by an
entry point of the group ``standfast.extensions``::

    [project.entry-points."standfast.extensions"]
    bench = "standfast.bench.extension:EXTENSION"

An extension names its parts as ``"module:attribute"``; a part is imported when it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final

GROUP: Final = "standfast.extensions"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line.

    Args:
        heading: The heading of ``standfast --help`` that lists it.
        summary: What it does, in one line.
        at: Where the click command is, ``"module:attribute"``.
    """

    heading: str
    summary: str
    at: str


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A page of the web console that belongs to the whole store.

    Args:
        path: Its path below ``/console``, and the name of its template without ``.html``. The template is in
            the folder ``templates`` of the package.
        at: Where the function is, ``"module:attribute"``, that makes the template's variables from the
            settings, the query of a request, and the folder of traces or None.
        under: The path of the menu item it belongs to, if it has none of its own.
        group: The group of the menu that lists it, if it has an item of its own.
        form_at: Where the function is that takes the page's form, for operators only: the settings, the
            fields, the folder of traces or None, and the name of the operator's key. It returns the query of
            the page that is shown next.
    """

    path: str
    title: str
    at: str
    under: str = ""
    group: str = "Playground"
    form_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What one package brings.

    Args:
        commands: Its commands by name.
        settings: Its sections of settings by name: subclasses of ``standfast.settings.SettingsSection``.
        pages: Its pages in the console.
        models: Kinds of model providers, each with a function that takes ``model``, ``base_url`` and
            ``script`` and returns a ``Guard``.
        extractor: Where the function is that takes the settings and the store, and returns the
            ``FactExtractor`` that the settings describe, or None.
    """

    commands: Mapping[str, Command] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[ConsolePage, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    extractor: str = ""


@cache
def extensions() -> tuple[Extension, ...]:
    """The extensions that are installed, in the order of their names."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # Slow to import; most commands need none.

    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return tuple(point.load() for point in found)


def part_at(reference: str) -> Any:
    """Import ``"module:attribute"``."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
