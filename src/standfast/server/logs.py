"""Logs of the server: one line a record, as text or JSON, on standard error, written by a thread of its own.

A record costs the thread that logs it one append to a bounded queue. Formatting a traceback and waiting for a
slow terminal or disk happen in the writer thread, so that no log line ever stalls the event loop. Records
that do not fit the queue are counted, and the count is logged once there is room.
"""

import contextlib
import logging
import logging.handlers
import queue
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import IO, Any, Final

import msgspec

from standfast.limits import MAX_LOG_LINE_CHARS, MAX_QUEUED_LOG_RECORDS

_CLOSE_SECONDS: Final = 2.0
REQUEST_LOG: Final = logging.getLogger("standfast.server.requests")


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class LineFormatter(logging.Formatter):
    """Formats a record as one line. Its ``fields`` (from ``extra={"fields": {...}}``) follow the message."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self.converter = time.gmtime
        self._format = log_format

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end. Line breaks in the message and the traceback are escaped."""
        fields: dict[str, Any] = {
            "at": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:MAX_LOG_LINE_CHARS],
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            # The end of a traceback names the error; the start is what can be left out.
            fields["traceback"] = self.formatException(record.exc_info)[-MAX_LOG_LINE_CHARS:]
        if self._format is LogFormat.JSON:
            return msgspec.json.encode(fields, enc_hook=str).decode()
        at, level, logger, message = (fields.pop(name) for name in ("at", "level", "logger", "message"))
        more = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        return f"{at} {level} {logger}: {_escaped(message)}{more}"


def _shown(value: object) -> str:
    text = str(value)
    is_plain = text.isprintable() and text and not any(mark in text for mark in ' "=')
    return text if is_plain else f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class _Handler(logging.handlers.QueueHandler):
    """Puts records into a queue as they are, and counts those that do not fit."""

    def __init__(self, records: "queue.Queue[Any]") -> None:
        super().__init__(records)
        self.left_out = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The record itself: the thread that writes it also formats it."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, or count it if the queue is full."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.left_out += 1


class _Listener(logging.handlers.QueueListener):
    """Writes queued records, and says how many were left out."""

    def __init__(self, records: "queue.Queue[Any]", source: _Handler, target: logging.Handler) -> None:
        super().__init__(records, target)
        self._records = records
        self._source = source
        self._target = target

    def handle(self, record: logging.LogRecord) -> None:
        """Write one record, and the count of those that were left out before it."""
        super().handle(record)
        left_out, self._source.left_out = self._source.left_out, 0
        if left_out:
            message = f"{left_out} log records were left out: more came than could be written"
            self._target.handle(
                logging.makeLogRecord({"name": record.name, "levelname": "WARNING", "msg": message})
            )

    def enqueue_sentinel(self) -> None:
        """Ask the thread to end once everything before is written, even if the queue is full now."""
        with contextlib.suppress(queue.Full):
            self._records.put(None, timeout=_CLOSE_SECONDS)


@contextlib.contextmanager
def logging_to(
    stream: IO[str] | None = None, *, log_format: LogFormat = LogFormat.TEXT, requests: bool = False
) -> Iterator[None]:
    """Send warnings and errors of the whole process to a stream (standard error) until the block ends.

    Args:
        requests: Also log each request that the server answers.
    """
    target = logging.StreamHandler(stream or sys.stderr)
    target.setFormatter(LineFormatter(log_format))
    records: queue.Queue[Any] = queue.Queue(MAX_QUEUED_LOG_RECORDS)
    handler = _Handler(records)
    listener = _Listener(records, handler, target)
    root = logging.getLogger()
    level_before, handlers_before = root.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    REQUEST_LOG.setLevel(logging.INFO if requests else logging.NOTSET)
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        root.handlers[:] = handlers_before
        root.setLevel(level_before)
        REQUEST_LOG.setLevel(logging.NOTSET)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Keep a library from installing log handlers: ``basicConfig`` does nothing where there is one."""
    root, holder = logging.getLogger(), logging.NullHandler()
    level_before = root.level
    root.addHandler(holder)
    try:
        yield
    finally:
        root.removeHandler(holder)
        root.setLevel(level_before)
