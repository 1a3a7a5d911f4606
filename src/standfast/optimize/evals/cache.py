"""Results by the content of what was evaluated, so that nothing is paid for twice and a killed run goes on where it was.

A key covers the rendered prompt, the prompt's digest, the sample, the model's configuration, the evaluator and the repeat.
Errors are never kept.
"""

import os
import threading
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from standfast.canon import canonical_bytes, fingerprint, fingerprint_of_bytes
from standfast.clock import IdSource, RandomIds
from standfast.errors import CacheUnavailable, MissingExtra, StandfastError
from standfast.optimize.evals.evaluators import Score
from standfast.optimize.evals.results import EvalResult
from standfast.optimize.evals.samples import Sample
from standfast.optimize.providers.adapter import TokenUsage
from standfast.vocabulary import Value

PREFIX: Final = "standfast:eval:"


class CacheKey(Value, frozen=True, kw_only=True):
    """Everything that decides a result."""

    prompt_digest: str
    rendered_digest: str
    sample_digest: str
    model_config_id: str
    evaluator_id: str
    repeat: int

    @property
    def digest(self) -> str:
        """The key as one name."""
        return fingerprint(["eval-key/v1", self.as_json()])


class CachedGrade(Value, frozen=True, kw_only=True):
    """What is worth keeping: the output, its grade, and what it cost."""

    key: CacheKey
    output: str
    score: Score
    usage: TokenUsage

    def result(self, *, request_id: str, sample: Sample[Any, Any]) -> EvalResult:
        """The grade as the answer to a request."""
        return EvalResult(
            request_id=request_id,
            sample_id=sample.id,
            repeat=self.key.repeat,
            outcome="pass" if self.score.passed else "fail",  # type: ignore[arg-type]  # Coerced when it is built.
            score=self.score,
            prompt_digest=self.key.prompt_digest,
            rendered_digest=self.key.rendered_digest,
            output=self.output,
            usage=self.usage,
        )


class ResultCache(Protocol):
    """Keeps grades. Two that put the same key put the same grade, or the first one stays."""

    def get(self, key: CacheKey) -> CachedGrade | None:
        """The grade, if it is known and whole."""
        ...

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Keep a grade; gives the one that is kept, which may be another's who was first."""
        ...


class InMemoryResultCache:
    """Grades of one process."""

    def __init__(self) -> None:
        self._kept: dict[str, CachedGrade] = {}
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> CachedGrade | None:
        """The grade, if it is known."""
        with self._lock:
            return self._kept.get(key.digest)

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Keep a grade; the first one stays."""
        with self._lock:
            return self._kept.setdefault(grade.key.digest, grade)


class LocalResultCache:
    """Grades in a folder, for the processes of one machine: a file each, whole or not there."""

    def __init__(self, root: str | os.PathLike[str], *, ids: IdSource | None = None) -> None:
        self._root, self._ids = Path(root), ids or RandomIds()

    def get(self, key: CacheKey) -> CachedGrade | None:
        """The grade, if it is known; a damaged file is as good as none."""
        try:
            return _read(self._file(key).read_bytes(), key)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheUnavailable(problem=str(error)) from None

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Keep a grade; the first one stays. Losing one to a power cut costs an evaluation, so nothing is synced."""
        file = self._file(grade.key)
        unfinished = file.with_name(f".unfinished-{self._ids.new_id()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(_content(grade))
            try:
                os.link(unfinished, file)
            except FileExistsError:
                known = self.get(grade.key)
                if known is not None:
                    return known
                unfinished.replace(file)
            finally:
                unfinished.unlink(missing_ok=True)
        except OSError as error:
            raise CacheUnavailable(problem=str(error)) from None
        return grade

    def _file(self, key: CacheKey) -> Path:
        digest = key.digest
        return self._root / digest[:2] / f"{digest}.json"


class RedisResultCache:
    """Grades on a server, for many machines; each ends after ``lifetime_seconds`` if that is given. Extra: ``redis``."""

    def __init__(self, *, client: Any, lifetime_seconds: float | None = None) -> None:
        try:
            from redis import RedisError  # noqa: PLC0415  # Only its users need it.
        except ImportError:
            raise MissingExtra(feature="The Redis result cache", extra="redis") from None
        self._client, self._their_error = client, RedisError
        self._lifetime_ms = None if lifetime_seconds is None else int(lifetime_seconds * 1000)

    def get(self, key: CacheKey) -> CachedGrade | None:
        """The grade, if it is known."""
        content = self._ask(lambda: self._client.get(PREFIX + key.digest))
        return None if content is None else _read(content, key)

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Keep a grade; the first one stays."""
        name, content = PREFIX + grade.key.digest, _content(grade)
        if self._ask(lambda: self._client.set(name, content, nx=True, px=self._lifetime_ms)):
            return grade
        return self.get(grade.key) or grade

    def _ask(self, call: Any) -> Any:
        try:
            return call()
        except self._their_error as error:
            raise CacheUnavailable(problem=str(error)) from None


def kept(cache: ResultCache | None, grade: CachedGrade) -> CachedGrade:
    """The grade as the cache keeps it. Without a cache, or where it is away, it is good all the same: who asks next pays."""
    if cache is None:
        return grade
    try:
        return cache.put(grade)
    except CacheUnavailable:
        return grade


def _content(grade: CachedGrade) -> bytes:
    told = canonical_bytes(grade.as_json())
    return fingerprint_of_bytes(told).encode() + b"\n" + told + b"\n"


def _read(content: bytes, key: CacheKey) -> CachedGrade | None:
    mark, _, told = content.partition(b"\n")
    told = told.removesuffix(b"\n")
    if fingerprint_of_bytes(told).encode() != mark:
        return None
    try:
        grade = CachedGrade.from_json(msgspec.json.decode(told))
    except (StandfastError, msgspec.MsgspecError):
        return None
    return grade if grade.key == key else None
