"""Starts the installed Chromium and a server for it. Nothing is downloaded."""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from standfast.server.app import server_config
from standfast.server.edge.middleware import EdgeMiddleware
from tests.server.console.sample_server import SampleServer
from tests.servers.process import LOOPBACK

VARIABLE = "STANDFAST_TEST_CHROMIUM"


def chromium() -> str | None:
    """The path of a Chromium, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get(VARIABLE) or next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium. It runs without a sandbox, because root has none, and opens only our pages."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def serving(harness: SampleServer) -> Iterator[str]:
    """Serve the sample server in a thread; yields its address."""
    with serving_app(harness.app()) as address:
        yield address


@contextmanager
def serving_app(app: EdgeMiddleware) -> Iterator[str]:
    """Serve an application in a thread; yields its address."""
    with socket.create_server((LOOPBACK, 0)) as bound:
        server = uvicorn.Server(server_config(app))
        thread = threading.Thread(target=lambda: server.run(sockets=[bound]), daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{bound.getsockname()[1]}"
        finally:
            app.stop()
            server.should_exit = True
            thread.join(10)


def sign_in(page: Page, address: str, key: str) -> None:
    """Sign in with this key."""
    page.goto(f"{address}/console/")
    page.fill("#key", key)
    page.press("#key", "Enter")
    page.wait_for_url(f"{address}/console/")
