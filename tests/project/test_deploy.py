"""docs/deploy.md and the files in deploy/ name options, settings and files that exist."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from starlette.testclient import TestClient

from standfast.cli import main
from standfast.limits import STOP_SECONDS
from standfast.server.app import build_full_app
from standfast.server.settings import ServerSettings
from standfast.settings import Settings
from tests.server.harness import Harness, make_gateway

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
UNIT = (ROOT / "deploy" / "standfast@.service").read_text(encoding="utf-8")
NIGHTLY = "".join(
    one.read_text(encoding="utf-8") for one in sorted((ROOT / "deploy").glob("standfast-*.service"))
)
ON_CALL = (ROOT / "docs" / "on-call.md").read_text(encoding="utf-8")
ALERTS = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
PROGRAM = re.compile(r"(^|/)standfast$")


def _fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def _calls_in(line: str) -> list[list[str]]:
    """The words behind each ``standfast`` of a shell line that a command's name follows."""
    words = shlex.split(line, comments=True)
    return [
        words[place + 1 :]
        for place, word in enumerate(words[:-1])
        if PROGRAM.search(word) and words[place + 1] in main.list_commands(click.Context(main))
    ]


def _calls() -> list[list[str]]:
    scripts = "\n".join(_fences("sh")).replace("\\\n", " ")
    started = re.findall(r"^ExecStart=(.*)$", UNIT + NIGHTLY, re.MULTILINE)
    (default,) = re.findall(r"^CMD (.*)$", CONTAINER, re.MULTILINE)
    quoted = [
        words
        for text in re.findall(r"`(standfast [^`]+)`", PAGE + ON_CALL)
        for words in [shlex.split(text)[1:]]
    ]
    shell = [call for line in [*scripts.splitlines(), *started] for call in _calls_in(line)]
    return [*shell, json.loads(default), *quoted]


CALLS = _calls()


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_every_command_has_the_options_that_it_is_called_with(words: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main)
    rest = list(words)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    options = {option for parameter in command.params for option in parameter.opts}

    assert [word for word in rest if word.startswith("--") and word not in options] == []


def test_the_examples_start_a_server_on_the_machine_in_a_container_and_as_a_replica() -> None:
    assert sum(call[0] == "serve" and "--behind-tls" in call for call in CALLS) == 3


def test_the_settings_in_the_examples_load(tmp_path: Path) -> None:
    for number, toml in enumerate(_fences("toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(toml, encoding="utf-8")
        settings = Settings.load({}, file=file)
        assert settings.section(ServerSettings).host_names
        assert settings.section(ServerSettings).trusted_proxies
    variables = re.findall(r"STANDFAST_([A-Z_]+)", PAGE + CONTAINER + UNIT)

    server = {f"server_{name}" for name in ServerSettings.__struct_fields__}
    assert {name.lower() for name in variables} <= server | set(Settings.__struct_fields__)


def test_what_the_container_copies_is_there() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--)(.*)$", CONTAINER, re.MULTILINE)
        for name in line.split()[:-1]
    ]

    assert len(copied) >= 5
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_supervisors_wait_longer_than_a_server_takes_to_stop() -> None:
    """A server has its calls' time and five seconds more."""
    (unit,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    (container,) = re.findall(r"--stop-timeout (\d+)", PAGE)

    assert min(int(unit), int(container)) > STOP_SECONDS + 5


def test_what_the_server_imports_is_pinned() -> None:
    pinned = (ROOT / "requirements" / "serve.txt").read_text(encoding="utf-8")
    everything = set((ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines())
    lines = [line for line in pinned.splitlines() if "==" in line]

    for name in ("psycopg", "uvicorn", "starlette", "jinja2", "mcp", "hatchling"):
        assert any(line.startswith(f"{name}==") for line in lines), name
    assert {line.partition(" ")[0] for line in lines} <= {line.partition(" ")[0] for line in everything}


@pytest.fixture(scope="module")
def metric_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The metrics of a server that has served something, with their labels' names behind a colon."""
    harness = Harness(make_gateway(tmp_path_factory.mktemp("metrics") / "log"))
    app, _ = build_full_app(harness.gateway)
    headers = harness.headers("operator", "*")
    with TestClient(app, base_url="http://localhost", headers=headers) as client:
        client.post("/v1/namespaces/default/remember", json={"text": "Ada likes tea."})
        text = client.get("/metrics").text
    names = set()
    for name, labels in re.findall(r"^(standfast_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        names |= {name, *(f"{name}:{label}" for label in re.findall(r'(\w+)="', labels))}
    names |= set(re.findall(r"^# TYPE (standfast_\w+)", text, re.MULTILINE))
    return names


def _expressions() -> list[str]:
    rules = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    return [*rules, *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])]


def test_alerts_and_the_dashboard_ask_for_metrics_that_exist(metric_names: set[str]) -> None:
    asked = set()
    for expression in _expressions():
        for name, labels in re.findall(r"\b(standfast_\w+)(?:\{([^}]*)\})?", expression):
            own = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)) - {"instance"}
            asked |= {name, *(f"{name}:{label}" for label in own)}

    assert len(asked) > 12
    assert asked - metric_names == set()


def test_a_metric_that_does_not_exist_is_found(metric_names: set[str]) -> None:
    assert "standfast_requests" not in metric_names
    assert "standfast_requests_total:state" not in metric_names


def test_every_alert_has_its_line_on_the_page_for_the_night() -> None:
    named = [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]]

    assert re.findall(r"^\| `(Standfast\w+)` \|", ON_CALL, re.MULTILINE) == named


def test_the_compose_file_names_settings_and_files_that_exist() -> None:
    known = {f"server_{name}" for name in ServerSettings.__struct_fields__} | set(Settings.__struct_fields__)
    servers = [one for name, one in COMPOSE["services"].items() if name.startswith("server-")]
    variables = {name for one in servers for name in one["environment"] if name.startswith("STANDFAST_")}
    mounted = [
        place.partition(":")[0]
        for one in COMPOSE["services"].values()
        for place in one["volumes" if "volumes" in one else "networks"]
        if place.startswith("./")
    ]

    assert len(servers) == 2
    assert {name.removeprefix("STANDFAST_").lower() for name in variables} <= known
    # The key is the operator's to make.
    assert [one for one in mounted if not (ROOT / "deploy" / one).exists()] == ["./metrics.key"]
    assert all(int(one["stop_grace_period"].rstrip("s")) > STOP_SECONDS + 5 for one in servers)


def test_each_timer_starts_a_unit_that_is_there() -> None:
    timers = sorted((ROOT / "deploy").glob("*.timer"))

    assert len(timers) == 2
    assert all(timer.with_suffix(".service").exists() for timer in timers)
