"""How the public API is used, for the type checker to read: ``make check`` fails when a type is lost.

Nothing here is run. Each function uses one part of the API and asserts the types that a user's editor would
show.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, assert_type

import standfast
from standfast import (
    adapters,
    bench,
    client,
    errors,
    govern,
    ledger,
    optimize,
    policies,
    recall,
    store,
    traces,
)
from standfast.clock import RandomIds, SystemClock
from standfast.memory import MemoryVectors, VectorStatus
from standfast.memory.listings import RecordListing
from standfast.policies import ByteBudget, ByteMemoryStore, ByteModel, apply_policy, estimate_bytes, write
from standfast.records import canon, vocabulary

HANDBOOK = {"kind": "doc", "id": "handbook#4"}


def canonical_json(value: object) -> None:
    """Bytes, digests and values keep their types."""
    assert_type(standfast.canonical_bytes(value), bytes)
    assert_type(standfast.fingerprint(value), str)
    assert_type(canon.parse(b"{}"), Any)
    assert_type(canon.NORMALIZATION_VERSION, Literal["json-v1"])


def values(clock: standfast.Clock, ids: standfast.IdSource) -> standfast.Record:
    """Values are built by keyword and read back as their own class."""
    assert_type(clock.now(), datetime)
    record = standfast.Record(memory_id=ids.new_id(), text="x", tags=("a",), band=standfast.Band.ACTIVE)
    assert_type(record.band.tier, standfast.Tier)
    assert_type(standfast.Record.from_json(record.as_json()), standfast.Record)
    assert_type(standfast.Verdict.read("hold"), standfast.Verdict)
    return record


def catching() -> str:
    """An error is caught by class and read by code and facts."""
    try:
        canon.parse("")
    except errors.NotCanonical as error:
        assert_type(error.facts, dict[str, Any])
        return error.code
    except (standfast.StoreError, errors.TraceError, errors.ApprovalError) as error:
        return error.code
    return ""


def opening(folder: Path) -> standfast.Memory:
    """Every option of a memory has a type."""
    return standfast.Memory.open(
        str(folder / "agent.db"),
        namespace="acme",
        create=True,
        clock=SystemClock(),
        ids=RandomIds(),
        floors=standfast.FloorRegistry.shipped(),
        strict=True,
        allow_live=False,
        notary=None,
        commit_policy=standfast.CommitPolicy.ALL_OR_NOTHING,
        traces=standfast.TraceFolder(folder / "traces", ids=RandomIds()),
        budgets=[standfast.BandBudget(band=standfast.Band.ACTIVE, max_bytes=900, policy="RecencyBias")],
        controllers=recall.ControllerRegistry.shipped(),
    )


def verbs(memory: standfast.Memory) -> None:
    """The verbs without a run."""
    answer = memory.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK, tags=["refunds"])
    assert_type(answer, standfast.Remembered)
    assert_type(answer.receipt, standfast.Receipt | None)
    assert_type(answer.verdict, standfast.Verdict)
    memory.remember("x", scope="user/ada", metadata={"plan": "gold"}, session="s", position=0, speaker="Ada")
    assert_type(
        memory.recall("refunds", scopes=["user/ada"], where={"tag": "a"}),
        standfast.ContextPackage | standfast.RecallPackage,
    )
    assert_type(memory.recall("refunds", scope="user", where=standfast.Filter(tag="a")).text, str)
    assert_type(memory.recall("refunds"), standfast.ContextPackage | standfast.RecallPackage)
    assert_type(memory.recall("refunds").erased_since, vocabulary.ErasedSince | None)
    assert_type(memory.recall("refunds", tokens=500, bands=["VAULT"]).text, str)
    assert_type(memory.forget("a", reason="asked for"), standfast.Forgotten)
    assert_type(memory.forget(scope="user/ada", rehearse=True), standfast.ErasurePlan)
    added = memory.add([{"role": "user", "content": "Hello"}], scope="user/ada", session="s", position=0)
    assert_type(added, standfast.AddedMessages)
    assert_type(added.messages[0], standfast.AddedMessage)
    assert_type(memory.session("s", scope="user/ada"), list[standfast.SessionMessage])
    assert_type(memory.sessions(scope="*"), list[standfast.SessionInfo])


def a_run(memory: standfast.Memory, model: standfast.ModelConfig) -> None:
    """A run and what it records."""
    with memory.run(workflow="triage", mode="buffered_write", agent="bot", model=model) as run:
        assert_type(run, standfast.Run)
        assert_type(run.recall("refunds", tokens=800), standfast.ContextPackage | standfast.RecallPackage)
        assert_type(run.remember("EU refunds take 14 days.", source=HANDBOOK), standfast.Remembered)
        run.forget("a", reason="wrong")

        @run.tool(profile=standfast.ToolProfile.whole("weather"))
        def weather(city: str, days: int = 1) -> list[str]:
            return [city] * days

        with run.event(role="agent", interceptor="tools") as event:
            assert_type(weather("Cork", days=2), list[str])
            event.decide("look_up")
        with run.lane():
            run.guardrail("spend-limit")
        run.output({"type": "text", "sections": ["answer"]})
    assert_type(run.commit(), standfast.Receipt | None)
    assert_type(run.receipt, standfast.Receipt | None)
    assert_type(run.trace, standfast.Trace | None)
    assert_type(run.identity, standfast.RunIdentity)
    assert_type(run.recorder, traces.Recorder)


def looking_back(memory: standfast.Memory) -> None:
    """Time travel, history and proof."""
    assert_type(memory.store.identity, store.StoreIdentity)
    view = memory.at(1)
    assert_type(view, standfast.SnapshotView)
    assert_type(view.recall("refunds"), standfast.ContextPackage | standfast.RecallPackage)
    assert_type(view.records(band=standfast.Band.LEDGER), RecordListing)
    assert_type(memory.records(scope="*", where={"tag": "x"}).advice, str)
    assert_type([record.origin for record in memory.records()], list[standfast.Origin])
    assert_type(memory.history("a", scope="user/ada"), list[standfast.HistoryEntry])
    assert_type(memory.diff(0).advice, str)
    assert_type([change.before for change in memory.diff(0)], list[standfast.Record | None])
    assert_type(memory.due(), Iterator[govern.DueRecord])
    assert_type(memory.sweep(), list[standfast.Receipt])
    assert_type(memory.patterns(), list[govern.AttackPattern])
    assert_type(memory.lift_pattern("web:a.example", reason="cleaned"), standfast.Receipt)
    assert_type(memory.verify(), Iterator[str])
    assert_type(memory.verify(["note"], [ledger.VerifyingKey.parse("log+00000000+key")]), Iterator[str])
    assert_type(memory.tail(), ledger.LedgerTail)
    assert_type(memory.checkpoint(), str | None)
    assert_type(memory.receipt(1), standfast.InclusionReceipt)
    assert_type(memory.approvals, standfast.ApprovalQueue)


async def from_async_code(url: str) -> None:
    """The same verbs as coroutines; async tools keep their types."""
    async with await standfast.AsyncMemory.open(url, namespace="acme") as memory:
        assert_type(memory, standfast.AsyncMemory)
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            assert_type(run, standfast.AsyncRun)
            assert_type(await run.recall("refunds"), standfast.ContextPackage | standfast.RecallPackage)
            assert_type(await run.remember("EU refunds take 14 days."), standfast.Remembered)
            await run.forget("a", reason="wrong")

            @run.tool()
            async def weather(city: str) -> int:
                await asyncio.sleep(0)
                return len(city)

            async with run.event(role="agent", interceptor="tools", decision_type="look_up"):
                assert_type(await weather("Cork"), int)
            assert_type(await run.commit(), standfast.Receipt | None)
        assert_type(await memory.remember("x", source=HANDBOOK), standfast.Remembered)
        assert_type(await memory.recall("x"), standfast.ContextPackage | standfast.RecallPackage)
        assert_type(await memory.forget("x", reason="y"), standfast.Forgotten | standfast.ErasurePlan)
        assert_type(await memory.add([{"role": "user", "content": "x"}]), standfast.AddedMessages)
        assert_type(await memory.session("s"), list[standfast.SessionMessage])
        view = await memory.at(1)
        assert_type(view, standfast.AsyncSnapshotView)
        assert_type(await view.records(), list[standfast.Record])
        assert_type(await memory.records(), list[standfast.Record])
        assert_type(await memory.due(), list[govern.DueRecord])
        assert_type(await memory.verify(), list[str])


def agent(run: standfast.AgentRun) -> None:
    """A function that takes a run of memory or a replayed one."""
    assert_type(run.remember("x"), standfast.Remembered)
    run.output({"type": "text", "sections": []})


def comparing(left: standfast.Trace, right: standfast.Trace, memory: standfast.Memory) -> None:
    """Comparing and replaying."""
    from standfast.traces.replay import replay

    assert_type(traces.compare(left, right), traces.Comparison)
    assert_type(traces.compare(left, right).is_equivalent, bool)
    assert_type(replay(left, agent, memory=memory.at(1)).trace, standfast.Trace)
    calls = [call for event in left.events for call in event.tool_calls]
    assert_type(calls, list[traces.ToolCall])


class Shouting:
    """A floor of a user's own."""

    name = "F10_Shouting"
    threshold = 0.5
    hard = False

    def check(self, claim: standfast.Claim, context: standfast.JudgingContext) -> standfast.Finding:
        """Refuse capitals."""
        return standfast.Finding(0.0 if claim.record.text.isupper() and context.vault else 1.0, "shouting")


def governing(record: standfast.Record) -> None:
    """Floors, the judge and who may sign."""
    guard: govern.Guard = optimize.ProviderGuard(optimize.ScriptedProvider({}))
    model = standfast.ModelFloor(guard=guard, answers=govern.AnswerFolder("answers"))
    assert_type(model.version, str)
    registry = standfast.FloorRegistry.shipped()
    registry.register(Shouting())
    floor: standfast.Floor = Shouting()
    judgement = govern.Judge([floor]).judge(standfast.Claim(record=record))
    assert_type(judgement, standfast.Judgement)
    assert_type(judgement.verdict, standfast.Verdict)
    assert_type(standfast.Signers.parse(""), standfast.Signers)


def keeping() -> None:
    """Write policies by name."""
    assert_type(policies.policy_names(), list[str])
    assert_type(policies.PolicySpec.parse("RecencyBias").build(seed=1), standfast.WritePolicy)


def recalling(memory: standfast.Memory, counter: standfast.TokenCounter) -> None:
    """Controllers by version."""
    answer = memory.at(1).explain("refunds", controller="phase6-v1", token_counter=counter)
    assert_type(answer, recall.RecallAnswer)
    assert_type(answer.package, standfast.ContextPackage | standfast.RecallPackage)
    assert_type(recall.ControllerRegistry.shipped().get("phase6-v1"), recall.Controller)


def embedding(memory: standfast.Memory, package: standfast.RecallPackage) -> None:
    """Vectors of ``hybrid-v1``."""
    embedder: standfast.Embedder = standfast.StaticEmbedder()
    embedder = standfast.HttpEmbedder("m", dimensions=384, base_url="http://localhost/v1")
    embedder = standfast.LocalEmbedder("models/all-MiniLM-L6-v2")
    assert_type(standfast.open_embedder("static"), standfast.Embedder)
    assert_type(standfast.Memory.open(":memory:", embedder=embedder).vectors, MemoryVectors)
    assert_type(memory.vectors.fill(by="operator"), VectorStatus)
    assert_type(package.request.vector, recall.QueryVector | None)
    assert_type(memory.at(1).recall_again(package), standfast.ContextPackage | standfast.RecallPackage)


class EveryOther:
    """A write policy of a user's own."""

    def select(self, step: standfast.Step, store: ByteMemoryStore) -> Iterator[standfast.MemoryAction]:
        """Write every other step that fits."""
        if step.t % 2 == 0 and store.fits(step):
            yield write(step)


def benchmarking(results: Path) -> None:
    """Policies run on episodes, one by one and in grids."""
    store = ByteMemoryStore(ByteBudget(1_000))
    applied = apply_policy(EveryOther(), standfast.Step(t=0, observation="x"), store)
    assert_type(applied[0], tuple[standfast.MemoryAction, bool])
    assert_type(store.retained(), set[int])
    assert_type(estimate_bytes(standfast.Step(t=0, observation="x"), ByteModel.INDEXED), int)
    episode = bench.PricedEpisode(bench.generate(bench.DriftSettings(steps=10), 0))
    run = episode.run(bench.Entrant.parse("DriftValue"), 1_024)
    assert_type(run.metrics, bench.EpisodeMetrics)
    assert_type(run.metrics.recall, float)
    grid, units = bench.plan_grid(["episodes.jsonl"], policies=["DriftValue"])
    folder = bench.ResultsFolder(results)
    assert_type(bench.run_grid(grid, units, folder, bench.process_pool()), int)
    assert_type(bench.summarise_grid(results), bench.GridSummary)
    assert_type(bench.estimate_grid(grid, units, folder, SystemClock()), bench.GridEstimate)
    assert_type(bench.verify_submission(str(results)).verified, bool)
    rows = bench.read_results(results)
    assert_type(bench.rank_policies(rows, 1_024), list[bench.LeaderboardRow])
    assert_type(bench.deployment_settings("results", "DriftValue", band="ACTIVE"), str)


def counting(counter: standfast.TokenCounter) -> None:
    """Token counters."""
    assert_type(counter.count("EU refunds"), int)
    assert_type(counter.is_exact, bool)


def remote() -> None:
    """The client has the verbs of memory."""
    with client.Client("http://127.0.0.1:8765", key="sf_key") as memory:
        assert_type(memory, client.Client)
        assert_type(memory.diff(0), list[standfast.RecordChange])
        assert_type(memory.records(), Iterator[standfast.Record])
        batch = [client.RememberRequest(text="VAT is 19 %.", tags=("tax",))]
        assert_type(memory.remember_batch(batch).receipt, standfast.Receipt | None)
        assert_type(memory.recall_batch([client.RecallBody(query="VAT", tokens=100)])[0].text, str)
        for event in memory.events(after=0):
            assert_type(event, client.ServerEvent)


async def remote_from_async_code() -> None:
    """The verbs of the async client are those of the client, with their types."""
    async with client.AsyncClient("http://127.0.0.1:8765", key="sf_key") as memory:
        assert_type(await memory.diff(0), list[standfast.RecordChange])
        assert_type(memory.records(band=standfast.Band.LEDGER), AsyncIterator[standfast.Record])
        assert_type((await memory.remember("VAT is 19 %.", tags=["tax"])).receipt, standfast.Receipt | None)
        assert_type((await memory.at(4).recall("VAT", tokens=100)).text, str)
        async with memory.run(workflow="triage") as run:
            assert_type((await run.recall("VAT", tokens=100)).text, str)


def adapting(memory: standfast.Memory, folder: Path) -> None:
    """What other systems' names and formats are kept under."""
    with adapters.Mem0Memory(memory) as mem0:
        mem0.add("Ada sails.", user_id="ada")
    report = adapters.import_file(memory, folder / "facts.jsonl", file_format="jsonl", dry_run=True)
    assert_type(report, adapters.ImportReport)
    for piece in adapters.export_text(memory, file_format="markdown"):
        assert_type(piece, str)
    assert_type(adapters.StandfastSession("monday", memory, scope="user/ada").session_id, str)
    assert_type(adapters.StandfastMemoryTool(memory).scope, str)


def extracting(memory: standfast.Memory, provider: optimize.ScriptedProvider) -> None:
    """Facts from conversations."""
    extractor: standfast.FactExtractor = adapters.Extractor(provider, answers=govern.AnswerFolder("kept"))
    added = memory.add([{"role": "user", "content": "I sail."}], supersedes="hobby", extract=extractor)
    assert_type(added.facts, tuple[standfast.Remembered, ...])
    assert_type(standfast.ExtractedFact(text="Ada sails.", cites=(0,)).subject, str | None)


def optimizing(template: optimize.PromptTemplate, memory: standfast.Memory) -> None:
    """Loops, mailboxes, prompts and providers."""
    mailbox: optimize.InMemoryMailbox[str, str] = optimize.InMemoryMailbox(name="requests")
    any_mailbox: optimize.Mailbox[str, str] = mailbox
    provider: optimize.ProviderAdapter = optimize.ScriptedProvider({"hello": "world"})
    loop = optimize.MainLoop[str](adapter=provider, template=template, memory=memory)
    assert_type(loop, optimize.MainLoop[str])
    overrides: optimize.PromptOverridesStore = optimize.LocalPromptOverridesStore("overrides")
    cache: optimize.ResultCache = optimize.InMemoryResultCache()
    print(any_mailbox, overrides, cache)  # noqa: T201  # Only their types matter.


def shortening(template: optimize.PromptTemplate, provider: optimize.ProviderAdapter) -> None:
    """An optimization from the dataset to the rollback."""
    samples = optimize.read_dataset("samples.jsonl", inputs=["question"])
    assert_type(samples, optimize.Dataset[Any, Any])
    limits = optimize.SpendingLimits(max_calls=1_000, max_cost=5.0, input_price=3.0, output_price=15.0)
    store = optimize.LocalPromptOverridesStore("overrides")
    estimate = optimize.estimate_optimization(
        template, samples, strategies=["rewrite"], overrides_store=store
    )
    assert_type(estimate, optimize.SpendingEstimate)
    assert_type(limits.cost(estimate.usage), float)
    with optimize.live_table(limits) as progress:
        report = optimize.optimize(
            "Add ${a}.", samples, provider, evaluator=optimize.Assertions(), limits=limits, progress=progress
        )
    assert_type(report, optimize.OptimizationReport)
    for change in report.modifications:
        assert_type(change, optimize.Modification)
    for one in report.rejected:
        assert_type(one.reason, optimize.RejectReason)
    assert_type(report.pareto, tuple[optimize.ParetoPoint, ...])
    assert_type(report.untested, tuple[optimize.UntestedText, ...])
    assert_type(optimize.html_report(report), str)
    strategy: optimize.CompressStrategy = optimize.Strategies(
        optimize.Ablation(), optimize.DuplicateRemoval(), optimize.RecallBudget(0.5), optimize.FewShot()
    )
    result = optimize.optimize_in_process(
        template, samples, provider=provider, strategy=strategy, overrides_store=store, progress=watching
    )
    assert_type(result.spending, optimize.ModelSpending)
    optimize.apply_report(store, template, result.report)
    optimize.rollback(store, template, to_version=0)


def watching(progress: optimize.OptimizationProgress) -> None:
    """A callback of one's own for the progress of an optimization."""
    for candidate in progress.candidates:
        assert_type(candidate, optimize.CandidateProgress)
        assert_type(candidate.pass_rate, float | None)


clock: standfast.Clock = standfast.ManualClock()
ids: standfast.IdSource = standfast.CountedIds()
settings: standfast.Settings = standfast.Settings.load({})
