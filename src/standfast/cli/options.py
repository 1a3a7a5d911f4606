"""Options that several commands share, and opening the store or memory that they name."""

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from standfast.cli.output import json_option
from standfast.errors import InvalidValue
from standfast.ledger.note import VerifyingKey
from standfast.memory import Memory
from standfast.records.scopes import SHARED
from standfast.settings import Settings
from standfast.store.opening import open_store
from standfast.store.store import Store
from standfast.wiring import open_memory

WORKFLOW = "cli"
"""The workflow of what commands write."""
_F = TypeVar("_F", bound=Callable[..., Any])


def store_option(command: _F) -> _F:
    """Add ``--store``; without it, the settings decide."""
    text = (
        "Path of a SQLite file, postgresql://…, or a host name of the setting `stores`; default: the setting"
        " `store` (STANDFAST_STORE)."
    )
    return click.option("--store", "store_url", default=None, help=text)(command)


def namespace_option(command: _F) -> _F:
    """Add ``--namespace``; without it, the settings decide."""
    text = "Namespace (tenant); default: the setting `namespace` (STANDFAST_NAMESPACE)."
    return click.option("--namespace", default=None, help=text)(command)


@dataclass(frozen=True, slots=True)
class MemoryTarget:
    """The memory that a command works on, and whether it answers in JSON."""

    store_url: str | None
    namespace: str | None
    as_json: bool

    def opened(self, *, create: bool = False, sign: bool = True) -> AbstractContextManager[Memory]:
        """Open the memory, and close it afterwards; see ``opened_memory``."""
        return opened_memory(self.store_url, self.namespace, create=create, sign=sign)


def memory_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--store``, ``--namespace`` and ``--json``, which the command gets as one ``target``."""

    @functools.wraps(command)
    def call(*args: Any, store_url: str | None, namespace: str | None, as_json: bool, **options: Any) -> None:
        command(*args, target=MemoryTarget(store_url, namespace, as_json), **options)

    return store_option(namespace_option(json_option(call)))


def scope_option(command: _F) -> _F:
    """Add ``--scope`` to a command that works in one scope."""
    text = "Scope inside the namespace, a path such as user/ada."
    return click.option("--scope", default=SHARED, help=text)(command)


def listed_scope_option(command: _F) -> _F:
    """Add ``--scope`` to a command that lists a scope with all below it."""
    text = "List this scope with all below it; * for all."
    return click.option("--scope", default=SHARED, help=text)(command)


def load_settings(*, store_url: str | None = None, namespace: str | None = None) -> Settings:
    """Settings from file and environment; a store or namespace from the command line replaces theirs."""
    for option, value in (("--store", store_url), ("--namespace", namespace)):
        if value == "":
            # A variable of the shell that is not set. What is erased then must not be somewhere else.
            raise InvalidValue(what=option, problem="it is empty; name one, or leave the option out")
    settings = Settings.load(os.environ)
    if store_url is not None:
        settings = settings.of_store(store_url)
    return settings if namespace is None else msgspec.structs.replace(settings, namespace=namespace)


@contextmanager
def opened_memory(
    store_url: str | None, namespace: str | None, *, create: bool = False, sign: bool = True
) -> Iterator[Memory]:
    """Open the memory a command works on, and close it afterwards.

    Closing signs the ledger's head, unless ``sign`` is false. What fails after a commit is a warning on
    standard error.
    """
    with printed_warnings(
        open_memory(load_settings(store_url=store_url, namespace=namespace), create=create, sign=sign)
    ) as memory:
        try:
            yield memory
        finally:
            (memory if sign else memory.store).close()


@contextmanager
def printed_warnings(memory: Memory) -> Iterator[Memory]:
    """Print the warnings of a memory on standard error when the block ends, instead of logging them."""
    logging.getLogger("standfast.memory").addHandler(logging.NullHandler())
    try:
        yield memory
    finally:
        for warning in memory.warnings:
            click.echo(f"Warning: {warning}", err=True)


@contextmanager
def opened_store(store_url: str | None, *, create: bool = False, recover: bool = True) -> Iterator[Store]:
    """Open the store a command works on, and close it afterwards."""
    store = open_store(load_settings(store_url=store_url).store, create=create, recover=recover)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar on standard error, if a terminal. Yields a function of done and total."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def public_key_in(public_key: str) -> VerifyingKey:
    """A public key, given as such or as a file that holds it."""
    is_file = Path(public_key).is_file()
    return VerifyingKey.parse(Path(public_key).read_text(encoding="ascii").strip() if is_file else public_key)
