"""The result cache: the first grade stays, damage is as good as nothing, and keys cover all that decides a
result.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from standfast.optimize.errors import CacheUnavailable
from standfast.optimize.evals.evaluators import Score
from standfast.optimize.evals.results import (
    CachedGrade,
    CacheKey,
    EvalRequest,
    InMemoryResultCache,
    LocalResultCache,
    Outcome,
    RedisResultCache,
    ResultCache,
)
from standfast.optimize.evals.samples import Sample
from standfast.optimize.loops.agent import AgentTool
from standfast.optimize.loops.main import EvalLoop, MainLoop
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.providers.adapter import TokenUsage, ToolSpec
from tests.optimize.loops.harness import TEMPLATE, agent, dataset

KEY = CacheKey(
    prompt_digest="p",
    rendered_digest="r",
    sample_digest="s",
    model_config_id="m",
    tools_digest="t",
    evaluator_id="e",
    repeat=0,
)
GRADE = CachedGrade(key=KEY, output="14 days", score=Score.of(True), usage=TokenUsage(input_tokens=3))


@pytest.fixture(params=["memory", "folder", "redis"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], ResultCache]]:
    kept = InMemoryResultCache()
    if request.param == "redis":
        import redis

        client = redis.Redis.from_url(request.getfixturevalue("redis_url"))
        yield lambda: RedisResultCache(client=client, lifetime_seconds=60)
        client.close()
    elif request.param == "folder":
        yield lambda: LocalResultCache(tmp_path)
    else:
        yield lambda: kept


def test_a_grade_is_found_by_what_was_evaluated(opener: Callable[[], ResultCache]) -> None:
    assert opener().get(KEY) is None
    assert opener().put(GRADE) == GRADE
    assert opener().get(KEY) == GRADE


def test_the_first_grade_stays(opener: Callable[[], ResultCache]) -> None:
    """Two workers that graded the same request tell the same, whoever asks later."""
    opener().put(GRADE)
    late = msgspec.structs.replace(GRADE, output="15 days", score=Score.of(False))

    assert opener().put(late) == GRADE
    assert opener().get(KEY) == GRADE


@pytest.mark.parametrize("field", CacheKey.__struct_fields__)
def test_every_part_of_the_key_counts(opener: Callable[[], ResultCache], field: str) -> None:
    opener().put(GRADE)
    other = msgspec.structs.replace(KEY, **{field: 1 if field == "repeat" else "other"})

    assert opener().get(other) is None


def test_an_agent_with_other_tools_is_graded_anew() -> None:
    cache, provider = InMemoryResultCache(), agent()
    spec = ToolSpec(name="look_up", description="Looks up.", parameters={"type": "object"})
    tool = AgentTool(spec=spec, handler=lambda _arguments, _context: "")
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals")
    for tools in ([], [tool], [tool]):
        loop: MainLoop[Any] = MainLoop(adapter=provider, template=TEMPLATE, tools=tools)
        worker: EvalLoop[Any, Any] = EvalLoop(loop=loop, requests=requests, cache=cache)
        worker.handle(EvalRequest(sample=next(iter(dataset(1)))))

    assert provider.calls == 2


def test_a_damaged_file_is_as_good_as_none_and_is_replaced(tmp_path: Path) -> None:
    cache = LocalResultCache(tmp_path)
    cache.put(GRADE)
    [file] = tmp_path.rglob("*.json")
    file.write_bytes(file.read_bytes().replace(b"14", b"15"))

    assert cache.get(KEY) is None
    cache.put(GRADE)
    assert cache.get(KEY) == GRADE
    assert len([found for found in tmp_path.rglob("*") if found.is_file()]) == 1


def test_a_cache_that_can_not_be_reached_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(CacheUnavailable):
        LocalResultCache(tmp_path / "file").put(GRADE)


def test_a_grade_answers_a_request() -> None:
    result = GRADE.result(request_id=UUID(int=7), sample=Sample(id="a", input=1, expected=2))

    assert (result.outcome, result.sample_id, result.prompt_digest) == (Outcome.PASS, "a", "p")
