"""A gateway over a fresh store with its keys, and a real server in another process."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standfast.clock import Clock
from standfast.govern.approvals.signers import Signers
from standfast.ledger.notary import Notary
from standfast.memory import Memory
from standfast.optimize.prompts.overrides import PromptOverridesStore
from standfast.server.access.permissions import Caller, KeyRole
from standfast.server.operations.gateway import Gateway
from standfast.store.opening import open_store
from standfast.store.store import Store
from standfast.traces.folder import TraceFolder
from tests.memory.conftest import SIGNERS
from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerProcess

NO_MCP = "sys.modules['mcp'] = None; "
HANDBOOK = {"kind": "doc", "id": "handbook#4"}
FACT = {"text": "EU refunds take 14 days.", "subject": "policy/eu-refunds", "source": HANDBOOK}


def memory_over(store: Store, namespace: str = "default", **options: Any) -> Memory:
    """The memory of a namespace."""
    return Memory(store, namespace=namespace, **options)


@dataclass
class Harness:
    """A gateway, and API keys for the callers that a test needs."""

    gateway: Gateway
    tokens: dict[tuple[str, ...], str] = field(default_factory=dict)

    def token(self, role: KeyRole | str, *namespaces: str, name: str | None = None) -> str:
        """A key of this role for these namespaces; the same one each time."""
        identity = (str(role), *(namespaces or ("*",)), name or str(role))
        if identity not in self.tokens:
            _, self.tokens[identity] = self.gateway.keyring.create(
                name=identity[-1], role=identity[0], namespaces=identity[1:-1]
            )
        return self.tokens[identity]

    def caller(self, role: KeyRole | str, *namespaces: str, name: str | None = None) -> Caller:
        """Whoever has such a key."""
        return self.gateway.keyring.authenticate(self.token(role, *namespaces, name=name))

    def headers(self, role: KeyRole | str, *namespaces: str, name: str | None = None) -> dict[str, str]:
        """What such a key's holder sends."""
        return {"Authorization": f"Bearer {self.token(role, *namespaces, name=name)}"}

    def refusals(self) -> list[dict[str, Any]]:
        """What the access log says."""
        self.gateway.access_log.flush()
        entries = (entry.read() for entry in self.gateway.store.entries())
        return [entry["body"]["told"] for entry in entries if entry["kind"] == "access"]


def make_gateway(
    path: Path,
    *,
    url: str = ":memory:",
    signers: Signers = SIGNERS,
    calls_per_second: float = 1e6,
    failed_calls_per_second: float = 1e6,
    clock: Clock | None = None,
    has_traces: bool = False,
    bench_results: str = "",
    overrides: PromptOverridesStore | None = None,
) -> Gateway:
    """A gateway whose memory can recall; the log's key and checkpoints are next to the path."""
    store = open_store(url, create=True, clock=clock)
    traces = TraceFolder(path.with_name("traces"), ids=store.ids) if has_traces else None
    return Gateway(
        memory_over(store, notary=Notary.for_store_file(path, store.entries), traces=traces),
        memory_in=lambda namespace: memory_over(store, namespace),
        signers=lambda: signers,
        bench_results=bench_results,
        overrides=None if overrides is None else lambda: overrides,
        calls_per_second=calls_per_second,
        failed_calls_per_second=failed_calls_per_second,
    )


class Served:
    """``standfast serve`` on a store of its own, as users run it; without MCP it starts in half the time."""

    def __init__(self, folder: Path, *options: str, has_mcp: bool = False, **variables: str) -> None:
        self.folder = folder
        self.port = ReservedPort()
        self.address = f"http://{LOOPBACK}:{self.port.number}"
        self.store = folder / "standfast.db"
        program = f"import sys; {'' if has_mcp else NO_MCP}from standfast.cli import main; main()"
        command = [sys.executable, "-c", program, "serve", "--port", str(self.port.number), "--json"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")}
        environment |= variables
        self.process = ServerProcess(
            Program(
                server="standfast serve",
                command=[*command, *options],
                log=folder / "serve.log",
                environment=environment,
                folder=folder,
            ),
            answers=self._answers,
        )

    def _answers(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return '"address"' in (self.folder / "serve.log").read_text(encoding="utf-8").rpartition("\f")[2]
        return False

    def start(self) -> None:
        """Start it; once it is up, its first key is known."""
        with (self.folder / "serve.log").open("a", encoding="utf-8") as log:
            log.write("\f\n")
        self.process.start()

    @property
    def key(self) -> str:
        """The first key, which it printed when it was started first."""
        lines = (self.folder / "serve.log").read_text(encoding="utf-8").splitlines()
        printed = [json.loads(line) for line in lines if line.startswith("{")]
        return next(str(one["token"]) for one in printed if one["token"])

    def standfast(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command on the same store."""
        return subprocess.run(
            [sys.executable, "-m", "standfast", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
