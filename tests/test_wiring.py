"""The objects that settings and URLs describe."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from standfast.errors import InvalidSettings, InvalidValue
from standfast.optimize.opening import open_overrides, open_provider, open_result_cache, read_prompt
from standfast.records.vocabulary import Band
from standfast.settings import Settings
from standfast.store.opening import open_store
from standfast.wiring import (
    budgets_of,
    notary_of,
    open_memory,
    signers_of,
)


@pytest.fixture(autouse=True)
def _empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_settings_reach_the_memory() -> None:
    settings = Settings(
        store="agent.db",
        namespace="support",
        traces="traces",
        band_policies={Band.ACTIVE: "RecencyBias"},
        band_budgets_bytes={Band.ACTIVE: 500},
    )
    with open_memory(settings, create=True) as memory:
        assert memory.namespace == "support"
        assert memory.traces is not None
        assert memory.traces.path == Path("traces")
        assert not memory.traces.only_named_runs
    with open_memory(Settings(store="agent.db"), create=False) as memory:
        assert memory.traces is not None
        assert memory.traces.path == Path("agent.db-files/traces")
        assert memory.traces.only_named_runs
    with open_memory(Settings(store="agent.db", traces="off"), create=False) as memory:
        assert memory.traces is None

    assert [(one.band, one.max_bytes, one.policy) for one in budgets_of(settings)] == [
        (Band.ACTIVE, 500, "RecencyBias")
    ]


@pytest.mark.parametrize("name", ["log_key", "checkpoints"])
def test_log_key_and_checkpoints_are_set_together(name: str) -> None:
    with (
        closing(open_store(":memory:", create=True)) as store,
        pytest.raises(InvalidSettings, match=f"Setting {name} "),
    ):
        notary_of(Settings(**{name: "file"}), store)  # type: ignore[arg-type]  # Both are strings.


def test_every_store_but_one_in_memory_has_a_notary_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"log_key": "log.key", "checkpoints": "log.checkpoints"}
    with closing(open_store(":memory:", create=True)) as store:
        assert notary_of(Settings(store=":memory:"), store) is None
        assert notary_of(Settings(store="postgresql://db/x"), store) is not None
        assert notary_of(Settings(store="agent.db"), store) is not None
        assert notary_of(Settings(store="postgresql://db/x", **files), store) is not None  # type: ignore[arg-type]  # Strings.


def test_a_missing_list_of_signers_is_reported_with_an_example() -> None:
    with pytest.raises(InvalidSettings, match=r"Setting signers .*standfast-seal") as refused:
        signers_of(Settings(signers="nowhere"))

    assert "nowhere" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("overrides", "LocalPromptOverridesStore"),
        ("redis://127.0.0.1:1", "RedisPromptOverridesStore"),
        ("s3://bucket/prefix/", "S3PromptOverridesStore"),
    ],
)
def test_the_url_decides_where_overrides_are_stored(
    url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    assert type(open_overrides(url)).__name__ == kind


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (":memory:", "InMemoryResultCache"),
        ("cache", "LocalResultCache"),
        ("unix:///tmp/redis.sock", "RedisResultCache"),
    ],
)
def test_the_url_decides_where_results_are_cached(url: str, kind: str) -> None:
    assert type(open_result_cache(url)).__name__ == kind


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("scripted", {"model": "m"}, "script"),
        ("openai", {"script": "rules"}, "model"),
        ("anthropic", {}, "model"),
    ],
)
def test_a_provider_without_its_option_names_it(kind: str, options: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidSettings, match=f"give --{name}") as refused:
        open_provider(kind, **options)

    assert refused.value.facts["name"] == name


def test_the_kind_decides_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "none")
    Path("rules.jsonl").write_text('{"contains": ["a"], "answer": "b"}\n', encoding="utf-8")

    assert type(open_provider("scripted", script="rules.jsonl")).__name__.startswith("Scripted")
    assert type(open_provider("anthropic", model="m")).__name__ == "AnthropicProvider"
    assert type(open_provider("openai", model="m")).__name__ == "OpenAICompatibleProvider"


@pytest.mark.parametrize("content", [None, "{", "[]", '{"ns": 1}'])
def test_a_broken_prompt_file_is_reported_with_its_name(content: str | None) -> None:
    if content is not None:
        Path("prompt.json").write_text(content, encoding="utf-8")

    with pytest.raises(InvalidValue, match=r"Prompt file prompt\.json"):
        read_prompt("prompt.json")
