"""Requests to evaluation workers and their results: pass, fail, or error (neither); and a cache of them.

The cache is there so that nothing is paid for twice and a killed optimization continues where it was. A key
covers the rendered prompt, the prompt's digest, the sample, the model with its server's address, revision and
parameters, the tools it is offered, the evaluator and the repeat. Errors are never cached.
"""

import os
import threading
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol

import msgspec

from standfast.clock import UUID, IdSource, RandomIds, SystemClock, fresh_uuid
from standfast.errors import MissingExtra, StandfastError
from standfast.optimize.errors import CacheUnavailable
from standfast.optimize.evals.evaluators import Score
from standfast.optimize.evals.samples import ExpectedT, InputT, Sample
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.prompt import Experiment
from standfast.optimize.providers.adapter import ModelRequest, ProviderAdapter, TokenUsage, tools_digest
from standfast.records.canon import canonical_bytes, fingerprint, fingerprint_of_bytes
from standfast.records.vocabulary import Value


class Outcome(StrEnum):
    """How one evaluation ended."""

    PASS = "pass"  # noqa: S105  # The opposite of fail.
    FAIL = "fail"
    ERROR = "error"


@message_kind("EvalRequest")
class EvalRequest(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """Evaluate one sample, with the overrides of an experiment if there is one."""

    sample: Sample[InputT, ExpectedT]
    experiment: Experiment | None = None
    repeat: int = 0
    request_id: UUID = msgspec.field(default_factory=fresh_uuid)
    created_at: datetime = msgspec.field(default_factory=SystemClock().now)

    def __post_init__(self) -> None:
        self._require_aware("created_at", self.created_at)
        self._require_whole("repeat", self.repeat, least=0)


@message_kind("EvalResult")
class EvalResult(Value, frozen=True, kw_only=True):
    """The result of one evaluation, with the digest of the prompt really used. An error has no score."""

    request_id: UUID
    sample_id: str
    repeat: int = 0
    outcome: Outcome
    score: Score | None = None
    prompt_digest: str | None = None
    rendered_digest: str | None = None
    output: str = ""
    error: str | None = None
    usage: TokenUsage = TokenUsage()
    calls: int = 0
    """How many calls of a model this result took; none if it was cached."""
    truncated: bool = False
    """Whether the output ends at the limit of output tokens."""

    def __post_init__(self) -> None:
        self._coerce("outcome", Outcome)
        graded = self.outcome is not Outcome.ERROR
        self._require(
            graded == (self.score is not None), "a pass or a fail needs a score, and an error has none"
        )
        self._require(
            graded == (self.error is None), "an error needs a message, and a graded result has none"
        )
        if self.score is not None:
            self._require(
                self.score.passed == (self.outcome is Outcome.PASS), "score.passed and outcome must agree"
            )

    @property
    def success(self) -> bool:
        """Whether the evaluation was completed, passed or not."""
        return self.outcome is not Outcome.ERROR

    @property
    def passed(self) -> bool:
        """Whether the sample passed."""
        return self.outcome is Outcome.PASS


class EvalReport(Value, frozen=True, kw_only=True):
    """The results of one run over a dataset."""

    results: tuple[EvalResult, ...]
    memory_snapshot: int | None = None
    """The snapshot of memory that every evaluation read."""

    @property
    def graded(self) -> tuple[EvalResult, ...]:
        """The passes and fails."""
        return tuple(result for result in self.results if result.success)

    @property
    def errors(self) -> tuple[EvalResult, ...]:
        """The errors."""
        return tuple(result for result in self.results if not result.success)

    @property
    def truncated(self) -> tuple[EvalResult, ...]:
        """The results whose answers end at the limit of output tokens, passed or not."""
        return tuple(result for result in self.results if result.truncated)

    @property
    def pass_rate(self) -> float:
        """The share of passes among the graded results; 0 if there are none."""
        graded = self.graded
        return sum(result.passed for result in graded) / len(graded) if graded else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the results with the pass rate."""
        return {
            "pass_rate": self.pass_rate,
            "memory_snapshot": self.memory_snapshot,
            "results": [msgspec.to_builtins(one) for one in self.results],
        }


PREFIX: Final = "standfast:eval:"


class CacheKey(Value, frozen=True, kw_only=True):
    """Everything that determines a result."""

    prompt_digest: str
    rendered_digest: str
    sample_digest: str
    model_config_id: str
    tools_digest: str
    evaluator_id: str
    repeat: int

    @property
    def digest(self) -> str:
        """The hash of the key."""
        return fingerprint(["eval-key/v2", self.as_json()])


class CachedGrade(Value, frozen=True, kw_only=True):
    """An output with its score and the tokens it took."""

    key: CacheKey
    output: str
    score: Score
    usage: TokenUsage
    truncated: bool = False

    def result(self, *, request_id: UUID, sample: Sample[Any, Any], calls: int = 0) -> EvalResult:
        """Return the grade as the result of a request that took so many calls of a model; none if cached."""
        return EvalResult(
            request_id=request_id,
            sample_id=sample.id,
            repeat=self.key.repeat,
            outcome=Outcome.PASS if self.score.passed else Outcome.FAIL,
            score=self.score,
            prompt_digest=self.key.prompt_digest,
            rendered_digest=self.key.rendered_digest,
            output=self.output,
            usage=self.usage,
            calls=calls,
            truncated=self.truncated,
        )


class ResultCache(Protocol):
    """Stores grades. If a key is put twice, the first grade stays."""

    def get(self, key: CacheKey) -> CachedGrade | None:
        """Return the grade, or None if it is unknown or damaged."""
        ...

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Store a grade and return the stored one, which may be an earlier one."""
        ...


class InMemoryResultCache:
    """Grades in memory, for one process."""

    def __init__(self) -> None:
        self._grades: dict[str, CachedGrade] = {}
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> CachedGrade | None:
        """Return the grade, or None."""
        with self._lock:
            return self._grades.get(key.digest)

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Store a grade; an earlier one stays."""
        with self._lock:
            return self._grades.setdefault(grade.key.digest, grade)


class LocalResultCache:
    """Grades in a folder, for the processes of one machine: one file each, written atomically."""

    def __init__(self, root: str | os.PathLike[str], *, ids: IdSource | None = None) -> None:
        self._root, self._ids = Path(root), ids or RandomIds()

    def get(self, key: CacheKey) -> CachedGrade | None:
        """Return the grade, or None if it is unknown or its file is damaged."""
        try:
            return _read(self._file(key).read_bytes(), key)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheUnavailable(problem=str(error)) from None

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Store a grade; an earlier one stays. Not synced to disk: a power cut costs one evaluation."""
        file = self._file(grade.key)
        unfinished = file.with_name(f".unfinished-{self._ids.new_id()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(_content(grade))
            try:
                os.link(unfinished, file)
            except FileExistsError:
                stored = self.get(grade.key)
                if stored is not None:
                    return stored
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
    """Grades on a Redis server, for many machines. Needs the extra ``redis``.

    Args:
        lifetime_seconds: When a grade expires; never, if left out.
    """

    def __init__(self, *, client: Any, lifetime_seconds: float | None = None) -> None:
        try:
            from redis import RedisError  # noqa: PLC0415  # Only its users need it.
        except ImportError:
            raise MissingExtra(feature="The Redis result cache", extra="redis") from None
        self._client, self._redis_error = client, RedisError
        self._lifetime_ms = None if lifetime_seconds is None else int(lifetime_seconds * 1000)

    def get(self, key: CacheKey) -> CachedGrade | None:
        """Return the grade, or None."""
        content = self._call(lambda: self._client.get(PREFIX + key.digest))
        return None if content is None else _read(content, key)

    def put(self, grade: CachedGrade) -> CachedGrade:
        """Store a grade; an earlier one stays."""
        name, content = PREFIX + grade.key.digest, _content(grade)
        if self._call(lambda: self._client.set(name, content, nx=True, px=self._lifetime_ms)):
            return grade
        return self.get(grade.key) or grade

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._redis_error as error:
            raise CacheUnavailable(problem=str(error)) from None


def store_grade(cache: ResultCache | None, grade: CachedGrade) -> CachedGrade:
    """Store a grade and return the stored one; without a cache that can be reached, the grade itself."""
    if cache is None:
        return grade
    try:
        return cache.put(grade)
    except CacheUnavailable:
        return grade


def _content(grade: CachedGrade) -> bytes:
    encoded = canonical_bytes(grade.as_json())
    return fingerprint_of_bytes(encoded).encode() + b"\n" + encoded + b"\n"


def _read(content: bytes, key: CacheKey) -> CachedGrade | None:
    digest, _, encoded = content.partition(b"\n")
    encoded = encoded.removesuffix(b"\n")
    if fingerprint_of_bytes(encoded).encode() != digest:
        return None
    try:
        grade = CachedGrade.from_json(msgspec.json.decode(encoded))
    except (StandfastError, msgspec.MsgspecError):
        return None
    return grade if grade.key == key else None


_NOT_GRADED: Final = "proposal/v1"


class ProposedText(NamedTuple):
    """A model's answer that is not graded, and whether it ends at the limit of output tokens."""

    text: str
    truncated: bool


def cached_answer(
    cache: ResultCache | None,
    provider: ProviderAdapter,
    request: ModelRequest,
    *,
    kind: str,
    spent: Callable[[TokenUsage], None] | None = None,
    may_ask: Callable[[], bool] | None = None,
) -> ProposedText | None:
    """Return a model's answer to a request that is not graded, cached or new, and whether it was cut off;
    None if it is not cached and the model must not be asked any more.

    ``spent`` gets the tokens of a new one.
    """
    key = CacheKey(
        prompt_digest=fingerprint(["not-graded/v1", kind]),
        rendered_digest=fingerprint(["rendered-prompt/v1", request.prompt]),
        sample_digest=fingerprint(["not-graded/v1", request.as_json()]),
        model_config_id=provider.config.config_id,
        tools_digest=tools_digest(request.tools),
        evaluator_id=_NOT_GRADED,
        repeat=request.repeat,
    )
    cached = None if cache is None else cache.get(key)
    if cached is None:
        if may_ask is not None and not may_ask():
            return None
        reply = provider.complete(request)
        if spent is not None:
            spent(reply.usage)
        grade = CachedGrade(
            key=key,
            output=reply.text,
            score=Score.of(True, "not graded"),
            usage=reply.usage,
            truncated=reply.is_truncated,
        )
        cached = store_grade(cache, grade)
    return ProposedText(cached.output, cached.truncated)
