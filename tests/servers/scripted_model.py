"""A model that answers from a script, behind a real HTTP endpoint with OpenAI's chat API."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.process import LOOPBACK

Answer = Callable[[str], str | int]
"""Makes the answer from the last message of a request; a number is the HTTP status of a refusal."""


class ScriptedModel:
    """The endpoint. ``prompts`` are what it was asked; ``answer`` can be changed at any time."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.prompts: list[str] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Answer a chat."""
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompt = body["messages"][-1]["content"]
                model.prompts.append(prompt)
                answer = model.answer(prompt)
                status, plain = (answer, {}) if isinstance(answer, int) else (200, _completion(answer))
                content = json.dumps(plain).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # The name in the library.
                """Say nothing."""

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)

    @property
    def base_url(self) -> str:
        """What an OpenAI client calls its base URL."""
        return f"http://{LOOPBACK}:{self.server.server_address[1]}/v1"

    def settings(self, **more: str | float | bool) -> str:
        """The section of the settings that names it."""
        fields = {"provider": "openai", "model": "scripted", "base_url": self.base_url, **more}
        return "[extraction]\n" + "".join(f"{name} = {json.dumps(one)}\n" for name, one in fields.items())


def _completion(text: str) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 600, "completion_tokens": 50, "total_tokens": 650},
    }


@contextmanager
def scripted_model(answer: Answer) -> Iterator[ScriptedModel]:
    """Serve it while the block lasts."""
    model = ScriptedModel(answer)
    thread = threading.Thread(target=model.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.server.shutdown()
        model.server.server_close()
        thread.join()
