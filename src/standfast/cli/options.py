"""Options that several commands share."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import msgspec

from standfast.memory import Memory
from standfast.settings import Settings
from standfast.store.store import Store, open_store
from standfast.wiring import open_memory

_F = TypeVar("_F", bound=Callable[..., Any])


def store_option(command: _F) -> _F:
    """Give a command ``--store``, which the settings fill in."""
    text = "Path of a SQLite file, or postgresql://…; by default what the settings say (STANDFAST_STORE)."
    return click.option("--store", "store_url", default=None, help=text)(command)


def namespace_option(command: _F) -> _F:
    """Give a command ``--namespace``, which the settings fill in."""
    text = "Whose memory; by default what the settings say."
    return click.option("--namespace", default=None, help=text)(command)


def settings() -> Settings:
    """The deployment's settings, read anew for each command."""
    return Settings.load(os.environ)


@contextmanager
def memory(
    store_url: str | None, namespace: str | None, *, create: bool = False, signs: bool = True
) -> Iterator[Memory]:
    """The memory that a command works on, closed when it is done, and its ledger's head signed unless told otherwise."""
    chosen = {"store": store_url, "namespace": namespace}
    told = msgspec.structs.replace(settings(), **{name: value for name, value in chosen.items() if value})
    opened_memory = open_memory(told, create=create)
    try:
        yield opened_memory
    finally:
        (opened_memory if signs else opened_memory.store).close()


@contextmanager
def opened(store_url: str | None, *, create: bool = False, recover: bool = True) -> Iterator[Store]:
    """The store that a command works on, closed when it is done."""
    store = open_store(store_url or settings().store, create=create, recover=recover)
    try:
        yield store
    finally:
        store.close()
