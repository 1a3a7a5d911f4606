"""A server with content for every page: records with a history, proposals, traces, benchmark results,
prompts.

``payload`` is put into every field that a caller can store, so that a test can look for it on every page.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import CURVES, RESULTS, ResultsFolder, in_process, plan_grid, run_grid
from standfast.bench.settings import BenchSettings
from standfast.clock import ManualClock
from standfast.ledger.notary import Notary
from standfast.memory import Memory
from standfast.optimize.loops.gate import RejectReason
from standfast.optimize.loops.main import MainLoop, MainLoopRequest
from standfast.optimize.loops.report import (
    Modification,
    OptimizationReport,
    ParetoPoint,
    RejectedModification,
)
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import SectionOverride
from standfast.optimize.prompts.template import PromptTemplate, Section
from standfast.optimize.providers.adapter import ScriptedProvider
from standfast.optimize.settings import PromptSettings
from standfast.policies import BandBudget
from standfast.records.canon import canonical_bytes
from standfast.records.incident_requests import QuarantineRequest
from standfast.records.requests import AddRequest, ForgetRequest, RememberRequest
from standfast.records.vocabulary import Band
from standfast.server.access.permissions import Caller
from standfast.server.app import build_app
from standfast.server.console.rendering import link
from standfast.server.console.routes import console_routes
from standfast.server.edge.middleware import EdgeMiddleware
from standfast.server.operations import incident_operations, memory_operations
from standfast.server.operations.gateway import Gateway
from standfast.settings import Settings
from standfast.store.opening import open_store
from standfast.traces.folder import TraceFolder
from tests.bench.episodes import small_episode
from tests.memory.conftest import SIGNERS
from tests.server.harness import memory_over
from tests.traces.scripted import Script, a_run, recorded

FACTS = (
    ("EU refunds take 14 days.", "policy/eu-refunds", ("refunds", "eu")),
    ("Ada prefers to be written to in Norwegian.", "customer/ada", ("people",)),
    ("Parcels to Bergen leave at noon.", None, ("parcels",)),
    ("The warehouse in Cork is closed on Mondays.", "place/cork", ("places",)),
)
THEN = "2026-01-01T04:30"
"""A time after the first four facts were remembered, and before the fifth."""
SECRET = "The deploy key is " + "AKIA" + "Q3EGR7ZP2MX5TN4B and it works."


@dataclass
class SampleServer:
    """The gateway, its settings and API keys."""

    gateway: Gateway
    settings: Settings
    folder: Path
    namespace: str
    payload: str
    operator: str
    auditor: str
    agent: str
    proposal_id: str
    run_ids: tuple[str, str, str]

    def app(self, **options: Any) -> EdgeMiddleware:
        """The app with the console."""
        routes = console_routes(self.settings, behind_tls=options.pop("behind_tls", False))
        app = build_app(self.gateway, parts=[routes], **options)
        assert isinstance(app, EdgeMiddleware)
        return app

    def pages(self) -> dict[str, str]:
        """The address of every page, by name."""
        left, right, other = self.run_ids
        subject = f"payload{self.payload}"
        pages: dict[str, tuple[str, dict[str, Any]]] = {
            "home": ("", {}),
            "home month": ("", {"period": "month"}),
            "activity": ("activity", {}),
            "search": ("search", {}),
            "found": ("search", {"q": f"refunds {self.payload}"}),
            "playground": ("playground", {}),
            "asked": (
                "playground",
                {"q": f"When do refunds come? {self.payload}", "scopes": f"shared, user/ada{self.payload}"},
            ),
            "asked then": ("playground", {"q": f"refunds {self.payload}", "day": THEN, "tokens": 40}),
            "known": ("known", {"day": THEN}),
            "refused": ("refused", {}),
            "people": ("scopes", {}),
            "scopes": ("scopes", {"all": 1}),
            "scope": ("scope", {"scope": f"user/ada{self.payload}"}),
            "write": ("write", {"scope": f"user/ada{self.payload}"}),
            "correct": ("write", {"id": "preference/payment", "scope": f"user/ada{self.payload}"}),
            "forget": ("forget", {"scope": f"user/ada{self.payload}"}),
            "forget one": ("forget", {"id": subject}),
            "record": ("record", {"id": "policy/eu-refunds"}),
            "subject": ("record", {"id": subject}),
            "forgotten": ("record", {"id": "customer/ada"}),
            "investigate": ("investigate", {}),
            "investigated": ("investigate", {"id": "policy/eu-refunds"}),
            "quarantine": ("investigate", {"source": f"doc:handbook{self.payload}", "rehearse": 1}),
            "quarantined": ("quarantine", {}),
            "held": ("record", {"id": "place/oslo"}),
            "changes": ("changes", {}),
            "change": ("changes", {"at": 8}),
            "conflicts": ("conflicts", {}),
            "approvals": ("approvals", {}),
            "decided": ("approvals", {"decided": 1}),
            "proposal": ("proposal", {"id": self.proposal_id}),
            "sign": ("sign", {"decision": "approve", f"p-{self.proposal_id}": "on"}),
            "runs": ("runs", {}),
            "trace": ("trace", {"run": left}),
            "same": ("compare", {"left": left, "right": right}),
            "compare": ("compare", {"left": left, "right": other}),
            "ledger": ("ledger", {"after": 0}),
            "entry": ("entry", {"seq": 1}),
            "keys": ("keys", {}),
            "bench": ("bench", {}),
            "prompts": ("prompts", {}),
            "grades": ("grades", {}),
            "words": ("words", {}),
            "report": ("report", {"file": "optimization.json"}),
        }
        return {name: link(path, self.namespace, **words) for name, (path, words) in pages.items()}


def build_sample_server(
    folder: Path,
    payload: str = "",
    namespace: str = "default",
    *,
    memory_only: bool = False,
    url: str = ":memory:",
) -> SampleServer:
    """Build the server; with ``memory_only`` without traces, benchmark results and prompts, which take
    time.
    """
    clock = ManualClock()
    store = open_store(url, create=True, clock=clock)
    traces = TraceFolder(folder / "traces", ids=store.ids)
    budget = BandBudget(band=Band.ACTIVE, max_bytes=8_192, policy="ExpireOldest")
    home = memory_over(
        store,
        notary=Notary.for_store_file(folder / "store.db", store.entries),
        traces=traces,
        budgets=[budget],
    )
    gateway = Gateway(
        home,
        memory_in=lambda name: memory_over(store, name, traces=traces, budgets=[budget]),
        signers=lambda: SIGNERS,
        calls_per_second=1e6,
    )
    keys = {
        role: gateway.keyring.create(name=f"{role}{payload}", role=role, namespaces=spaces)
        for role, spaces in (("operator", ["*"]), ("auditor", ["*"]), ("agent", [namespace]))
    }
    proposal_id = _remember(gateway, keys["agent"][0].caller, namespace, clock, payload)
    run_ids = ("run-a", "run-b", "run-c") if memory_only else _record(traces, payload)
    if not memory_only:
        _bench(folder / "bench-results", payload)
        _prompts(folder, payload)
        _answer(home, payload)
        _quarantine(gateway, keys["operator"][0].caller, namespace, payload)
    return SampleServer(
        gateway=gateway,
        settings=Settings(
            namespace=namespace,
            sections=(
                BenchSettings(results=str(folder / "bench-results")),
                PromptSettings(
                    reports=str(folder),
                    overrides=str(folder / "overrides"),
                    grades=str(folder / "grades.jsonl"),
                ),
            ),
        ),
        folder=folder,
        namespace=namespace,
        payload=payload,
        operator=keys["operator"][1],
        auditor=keys["auditor"][1],
        agent=keys["agent"][1],
        proposal_id=proposal_id,
        run_ids=run_ids,
    )


def _remember(gateway: Gateway, agent: Caller, namespace: str, clock: ManualClock, payload: str) -> str:
    source = {"kind": "doc", "id": f"handbook{payload}"}

    def remember(text: str, **more: Any) -> Any:
        clock.advance(3_600)
        body = RememberRequest(text=text + payload, source=source, **more)
        return memory_operations.remember(gateway, agent, namespace, body, workflow=f"desk{payload}")

    refs = ({"url": f"javascript:alert(1)//{payload}"},) if payload else ()
    for text, subject, tags in FACTS:
        remember(text, subject=subject, tags=tuple(f"{tag}{payload}" for tag in tags), refs=refs)
    remember("EU refunds take 30 days, and nobody need ask.", subject="policy/eu-refunds")
    remember(f"A subject that is payload.{payload}", subject=f"payload{payload}")
    remember(SECRET, subject="secret/deploy")
    remember("Somebody should look at this.", subject="held", hold=f"it is odd{payload}")
    for number in range(3):
        remember(f"Gate {number} opens at {number + 6} o'clock.", tags=("gates",))
    clock.advance(60)
    reason = f"they asked{payload}"
    memory_operations.forget(gateway, agent, namespace, ForgetRequest(subject="customer/ada", reason=reason))
    _remember_user(gateway, agent, namespace, payload, remember)
    waiting = remember("Refunds over 500 euros take two signatures.", subject="law/refunds", propose=True)
    return str(waiting.proposal_id)


def _remember_user(
    gateway: Gateway, agent: Caller, namespace: str, payload: str, remember: Callable[..., Any]
) -> None:
    """What is known of one user: facts, one of them corrected, and a conversation."""
    scope = f"user/ada{payload}"
    remember("Ada pays by card.", subject="preference/payment", scope=scope, tags=("people",))
    remember("Ada pays by bank transfer.", subject="preference/payment", scope=scope)
    for place in ("Bergen", "Cork"):
        remember(f"Ada lives in {place}.", scope=scope)
    said = (
        {"role": "user", "content": f"My parcel has not come.{payload}"},
        {"role": "assistant", "content": f"It left Bergen at noon.{payload}"},
    )
    body = AddRequest(messages=said, scope=scope, session=f"monday{payload}")
    memory_operations.add(gateway, agent, namespace, body)


def _quarantine(gateway: Gateway, operator: Caller, namespace: str, payload: str) -> None:
    """A feed that was wrong: one text of it is out of recall, and another was, until it was released."""
    source = {"kind": "doc", "id": f"feed{payload}"}
    for place in ("oslo", "turin"):
        text = f"The depot in {place.title()} has a new gate.{payload}"
        said = RememberRequest(text=text, subject=f"place/{place}", source=source)
        memory_operations.remember(gateway, operator, namespace, said)
        wanted = QuarantineRequest(memory_id=f"place/{place}", reason=f"incident 4{payload}")
        incident_operations.quarantine(gateway, operator, namespace, wanted)
    listed = incident_operations.list_quarantines(
        gateway, operator, namespace, incident_operations.QuarantinesQuery()
    )
    (released,) = [one.act_id for one in listed.acts if one.asked["memory_id"] == "place/turin"]
    body = incident_operations.ReleaseBody(act_id=released, reason=f"it was right{payload}")
    incident_operations.release(gateway, operator, namespace, body)


def _record(traces: TraceFolder, payload: str) -> tuple[str, str, str]:
    run_ids = (f"run-a{payload}", f"run-b{payload}", f"run-c{payload}")
    scripts = [
        Script(question=f"refunds{payload}", query=f"parcel{payload}", guardrails=(f"pii{payload}",)),
        Script(question=f"refunds{payload}", query=f"parcel{payload}", guardrails=(f"pii{payload}",)),
        Script(question=f"refunds{payload}", query=f"another parcel{payload}", hits=(), sections=("body",)),
    ]
    for run_id, script in zip(run_ids, scripts, strict=True):
        traces.put(recorded(script, a_run(run_id, workflow_id=f"triage{payload}", memory_snapshot_id=4)))
    (traces.path / "run-z.json").write_text(f"no trace {payload}", encoding="utf-8")
    return run_ids


def _bench(folder: Path, payload: str) -> None:
    episodes = folder.with_name("episodes.jsonl")
    write_jsonl(episodes, [small_episode(40), small_episode(40, number=1)])
    policies = ["AlwaysWrite", "RecencyBias", "MergeAggressive", "ExpireOldest"]
    grid, units = plan_grid([episodes], budgets=[512, 1_024, 4_096], policies=policies)
    results = ResultsFolder(folder)
    results.open(grid)
    run_grid(grid, units, results, in_process)
    if payload:
        for name in (RESULTS, CURVES):
            file, quoted = folder / name, json.dumps(f"MergeAggressive{payload}")
            text = file.read_text(encoding="utf-8").replace('"MergeAggressive"', quoted)
            file.write_text(text, encoding="utf-8")


def _answer(memory: Memory, payload: str) -> None:
    """A question to an agent, answered and recorded; nothing is written to memory."""
    template = PromptTemplate(ns="agent", key="desk", sections=(Section(key="task", body="Q: ${question}"),))
    model = ScriptedProvider(lambda _: f"Parcels leave at noon.{payload}")
    desk: MainLoop[Any] = MainLoop(adapter=model, template=template, memory=memory, workflow=f"desk{payload}")
    request = MainLoopRequest(
        {"question": f"When do parcels leave?{payload}"}, session=f"monday{payload}", speaker=f"Ada{payload}"
    )
    with desk.rendered(request) as rendering:
        desk.answer(rendering)


def _prompts(folder: Path, payload: str) -> None:
    body = f"Please note that you are a calculator.{payload}\n\nYou like the sea."
    template = PromptTemplate(
        ns=f"agent{payload}",
        key=f"sum{payload}",
        sections=(Section(key=f"role{payload}", title=f"Role{payload}", body=body),),
    )
    (section,) = template.descriptor.sections
    shorter = f"You are a calculator.{payload}"
    LocalPromptOverridesStore(folder / "overrides").replace(
        template,
        [SectionOverride(path=section.path, expected_hash=section.body_hash, body=shorter)],
        tag="stable",
    )
    report = OptimizationReport(
        experiment_id=f"experiment{payload}",
        prompt_ns=template.ns,
        prompt_key=template.key,
        baseline_pass_rate=1.0,
        candidate_pass_rate=1.0,
        baseline_token_count=41,
        candidate_token_count=28,
        tokens_are_exact=True,
        tokenizer="o200k_base",
        choosing_samples=48,
        confirming_samples=32,
        evaluations=480,
        modifications=(
            Modification(
                section_path=section.path,
                original_hash=section.body_hash,
                original_body=body,
                proposed_body=shorter,
                token_reduction=13,
                baseline_pass_rate=1.0,
                candidate_pass_rate=1.0,
                strategy=f"ablation{payload}",
            ),
        ),
        rejected=(
            RejectedModification(
                section_path=section.path,
                token_reduction=20,
                reason=RejectReason.REGRESSED,
                detail=f"s3 fails now{payload}",
                strategy=f"rewrite{payload}",
            ),
        ),
        pareto=(ParetoPoint(label=f"baseline{payload}", tokens=41, pass_rate=1.0),),
    )
    (folder / "optimization.json").write_bytes(canonical_bytes(report.as_json()))
    (folder / "optimization-torn.json").write_text(f"{{{payload}", encoding="utf-8")


@contextmanager
def sample_server(folder: Path, **options: Any) -> Iterator[SampleServer]:
    """A sample server that is closed afterwards."""
    harness = build_sample_server(folder, **options)
    try:
        yield harness
    finally:
        harness.gateway.close()
