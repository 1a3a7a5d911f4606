"""Tenants over several databases: one server, a store of its own for each host name in the setting
``stores``.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from standfast.cli import main
from standfast.errors import InvalidSettings
from standfast.server.access.permissions import ALL_NAMESPACES, KeyRole
from standfast.server.app import StoreRouter, build_full_app
from standfast.server.operations.gateway import Gateway
from standfast.server.settings import ServerSettings
from standfast.settings import Settings
from tests.server.harness import HANDBOOK, Served

EU = "eu.memory.example.com"
US = "us.memory.example.com"
IN = "/v1/namespaces/default"


class Tenants:
    """A main store and two further ones behind one application."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(
            store=str(folder / "main.db"),
            sections=(ServerSettings(host_names=("memory.example.com",)),),
            stores={EU: str(folder / "eu.db"), US: str(folder / "us.db")},
        )
        own = {"memory.example.com": self.settings} | {
            host: self.settings.of_store(host) for host in (EU, US)
        }
        self.gateways = {host: Gateway.open(one, create=True) for host, one in own.items()}
        self.keys = {
            host: gateway.keyring.create(name="ops", role=KeyRole.OPERATOR, namespaces=[ALL_NAMESPACES])[1]
            for host, gateway in self.gateways.items()
        }
        apps = {
            host: build_full_app(gateway, settings=own[host])[0] for host, gateway in self.gateways.items()
        }
        self.router = StoreRouter(apps["memory.example.com"], {host: apps[host] for host in (EU, US)})

    def client(self, host: str, *, key_of: str | None = None) -> TestClient:
        """A client that names a host, with the key of its store or of another."""
        headers = {"Authorization": f"Bearer {self.keys[key_of or host]}"}
        return TestClient(self.router, base_url=f"http://{host}", headers=headers)


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Tenants]:
    made = Tenants(tmp_path)
    yield made
    for gateway in made.gateways.values():
        gateway.close()


def test_each_host_has_its_own_memory_ledger_and_keys(tenants: Tenants) -> None:
    with tenants.client(EU) as client:
        made = client.post(f"{IN}/remember", json={"text": "VAT is 19 %.", "source": HANDBOOK}).json()
        receipt = client.get(f"/v1/ledger/{made['receipt']['ledger_seq']}/receipt")
        elsewhere = tenants.client(US).post(f"{IN}/recall", json={"query": "VAT", "tokens": 100}).json()
        at_home = client.post(
            f"{IN}/recall", json={"query": "VAT", "tokens": 100}, headers={"Host": f"{EU.upper()}:443"}
        )
        stranger = tenants.client(US, key_of=EU).get(f"{IN}/status")
        page = tenants.client(US).get("/console")

    assert receipt.status_code == 200
    assert "19 %" in at_home.json()["text"]
    assert elsewhere["text"] == ""
    assert stranger.status_code == 401
    assert page.status_code == 200
    assert [gateway.store.head() for gateway in tenants.gateways.values()] == [1, 2, 1]


def test_other_host_names_reach_the_main_store_and_unknown_ones_nothing(tenants: Tenants) -> None:
    with tenants.client("memory.example.com") as client:
        own = client.get(f"{IN}/status")
        unknown = client.get(f"{IN}/status", headers={"Host": "evil.example.com"})
        ready = client.get("/readyz", headers={"Host": "10.0.0.7"})

    assert (own.status_code, unknown.status_code, ready.status_code) == (200, 421, 200)


def test_a_further_store_shows_no_prompts_and_benchmarks_of_the_main_one(tenants: Tenants) -> None:
    with tenants.client(EU) as client:
        answers = [client.get(path).status_code for path in ("/v1/bench", "/v1/prompts/shop/greeting")]

    assert answers == [404, 404]


def test_a_command_names_a_further_store_by_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text(
        f'store = "main.db"\n[stores]\n"{EU}" = "eu.db"\n', encoding="utf-8"
    )
    CliRunner().invoke(main, ["remember", "VAT is 19 %.", "--store", EU], catch_exceptions=False)
    verified = CliRunner().invoke(main, ["verify", "--store", EU, "--json"], catch_exceptions=False)

    assert json.loads(verified.output)["store"] == "eu.db"
    assert json.loads(verified.output)["problems"] == []
    assert (tmp_path / "eu.db-files/checkpoints").exists()
    assert not (tmp_path / "main.db").exists()


def test_serve_answers_for_every_store_and_closes_it(tmp_path: Path) -> None:
    served = Served(tmp_path, STANDFAST_STORES=json.dumps({EU: "eu.db"}))
    served.start()
    with httpx.Client(base_url=served.address) as client:
        answers = [client.get(f"{IN}/status", headers={"Host": host}).status_code for host in (EU, US)]
    served.process.stop()
    verified = CliRunner().invoke(main, ["verify", "--store", str(tmp_path / "eu.db"), "--json"])
    printed = [line for line in (tmp_path / "serve.log").read_text().splitlines() if line.startswith("{")]

    assert answers == [401, 421]
    assert json.loads(printed[0])["stores"] == [EU]
    assert verified.exit_code == 0


def test_a_store_on_a_server_has_traces_of_its_own_or_none() -> None:
    table = {EU: "postgresql://db/eu"}
    plain, named = (
        Settings(stores=table).of_store(EU),
        Settings(stores=table, traces="traces").of_store(table[EU]),
    )

    assert (plain.traces, named.traces) == ("off", f"traces/{EU}")
    assert Settings(stores=table).of_store("other.db").stores == table


@pytest.mark.parametrize(
    "stores",
    [
        {"https://eu": "eu.db"},
        {EU: ""},
        {EU: "main.db"},
        {EU: "eu.db", US: "eu.db"},
        {"memory.example.com": "eu.db"},
    ],
)
def test_a_wrong_table_is_refused(stores: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="stores"):
        Settings(
            store="main.db",
            stores=stores,
            sections=(ServerSettings(host_names=("memory.example.com",)),),
        )
