"""Takes pictures of the console: `python -m tests.server.console.screenshots FOLDER [PAGE …]`.

Without pages it writes those that the docs show. With pages (or `all`) it takes each at three widths, light
and dark, to be looked at.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.server.console.browser import browser, serving, sign_in
from tests.server.console.sample_server import SampleServer, sample_server

WIDTHS = (390, 1024, 1600)
SCHEMES = ("light", "dark")
DOCS = {
    "console": "home",
    "console-playground": "asked",
    "console-user": "scope",
    "console-record": "record",
    "console-approvals": "approvals",
    "console-conflicts": "conflicts",
}
"""The pictures in the docs, and the pages that they show."""


def take(
    chrome: Browser, server: SampleServer, address: str, *, folder: Path, names: dict[str, str], whole: bool
) -> list[Path]:
    """Take pictures of pages: at each width and scheme, or one for the docs."""
    taken = []
    sizes = [(width, scheme) for width in WIDTHS for scheme in SCHEMES] if whole else [(1180, "light")]
    for width, scheme in sizes:
        context = chrome.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page = context.new_page()
        sign_in(page, address, server.operator)
        for file, name in names.items():
            page.goto(address + server.pages()[name])
            path = folder / (f"{file}-{width}-{scheme}.png" if whole else f"{file}.png")
            page.screenshot(path=path, full_page=whole)
            taken.append(path)
        context.close()
    return taken


def main(folder: Path, names: list[str]) -> None:
    """Take the pictures, and print their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as files,
        sample_server(Path(files)) as server,
        serving(server) as address,
        browser() as chrome,
    ):
        every = {name: name for name in server.pages()}
        chosen = every if names == ["all"] else {name: name for name in names}
        for path in take(chrome, server, address, folder=folder, names=chosen or DOCS, whole=bool(names)):
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
