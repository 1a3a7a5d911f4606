"""axe-core over every page, light and dark, narrow and wide; and no page is wider than its window."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser

from tests.server.console.browser import browser, chromium, serving, sign_in
from tests.server.console.sample_server import SampleServer
from tests.server.console.screenshots import WIDTHS

LOCKED = Path(__file__).with_name("axe")
INSTALL = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
RUN = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations.map(
    (one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`)"""  # noqa: E501  # A text as a whole.
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One browser for all tests of the file."""
    if chromium() is None:
        pytest.skip("THE ACCESSIBILITY TESTS OF THE CONSOLE DID NOT RUN: there is no chromium")
    with browser() as launched:
        yield launched


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, of the version in the lock file."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("THE ACCESSIBILITY TESTS OF THE CONSOLE DID NOT RUN: Node and npm are not installed")
    folder = tmp_path_factory.mktemp("axe") / "installed"
    shutil.copytree(LOCKED, folder)
    done = subprocess.run(INSTALL, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"axe-core can't be installed: {done.stderr[-300:]}")
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (1024, "light"), (1600, "dark")]
)
def test_axe_finds_nothing_on_any_page(
    harness: SampleServer, chrome: Browser, axe: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    """With everything that can be opened open. The policy of the pages would forbid axe's own script."""
    found = dict[str, Any]()
    with serving(harness) as address:
        context = chrome.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
        )
        page = context.new_page()
        page.goto(f"{address}/console/login")
        page.evaluate(axe)
        found["login"] = page.evaluate(RUN)
        sign_in(page, address, harness.operator)
        for name, path in harness.pages().items():
            page.goto(address + path)
            page.evaluate(OPEN_ALL)
            page.evaluate(axe)
            found[name] = page.evaluate(RUN)
        context.close()

    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, *WIDTHS])
def test_no_page_is_wider_than_its_window(harness: SampleServer, chrome: Browser, width: int) -> None:
    wide = dict[str, int]()
    with serving(harness) as address:
        context = chrome.new_context(viewport={"width": width, "height": 800})
        page = context.new_page()
        sign_in(page, address, harness.operator)
        for name, path in harness.pages().items():
            page.goto(address + path)
            page.evaluate(OPEN_ALL)
            wide[name] = page.evaluate("document.documentElement.scrollWidth")
        context.close()

    assert {name: size for name, size in wide.items() if size > width} == {}
