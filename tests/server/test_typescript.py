"""Clients in TypeScript against a real server: one generated from the OpenAPI document, and the official one
of MCP.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from standfast.server.http.openapi import openapi_document
from tests.server.harness import Served

SOURCES = Path(__file__).with_name("typescript")
INSTALL = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
# Without this flag the generator takes a field with a default for one that must be sent.
GENERATE = ["npx", "openapi-typescript", "openapi.json", "--default-non-nullable=false", "--output", "api.ts"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled programs."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node and npm are not installed")
    folder = tmp_path_factory.mktemp("typescript") / "programs"
    shutil.copytree(SOURCES, folder)
    if (installed := _run(INSTALL, folder)).returncode:
        pytest.skip(f"the packages of tests/server/typescript can't be installed: {installed.stderr[-300:]}")
    (folder / "openapi.json").write_text(json.dumps(openapi_document()))
    for command in (GENERATE, ["npx", "tsc", "--project", "."]):
        done = _run(command, folder)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def _printed(folder: Path, program: str, *words: str) -> Any:
    done = _run(["node", f"built/{program}.js", *words], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_generated_client_compiles_and_makes_ten_calls(programs: Path, served: Served) -> None:
    assert _printed(programs, "api_calls", served.address, served.key) == {"calls": 10}


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_official_mcp_client_finds_all_that_it_needs(
    programs: Path, served: Served, tmp_path: Path, transport: str
) -> None:
    server = [
        sys.executable,
        "-m",
        "standfast",
        "mcp",
        "--store",
        str(tmp_path / "mcp.db"),
        "--role",
        "operator",
        "--tools",
        "all",
    ]
    where = [served.address, served.key] if transport == "http" else [*server, "--namespace", "*"]

    assert _printed(programs, "mcp_calls", transport, *where) == {"prompts": 3, "templates": 4}
