"""A server of our own with OpenAI's ``/v1/embeddings``: `python -m tests.servers.embeddings PORT`.

It answers with the shipped table.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standfast.recall import StaticEmbedder
from tests.servers.process import LOOPBACK

MODEL_NAME = "tests-static"
EMBEDDER = StaticEmbedder()


class Handler(BaseHTTPRequestHandler):
    """Answers as OpenAI's API does: vectors with their indexes, in no particular order, and errors with a
    body.
    """

    def do_GET(self) -> None:
        """Say that the server is ready."""
        self._reply(200, {"data": [{"id": MODEL_NAME}]})

    def do_POST(self) -> None:
        """Answer with vectors, or with the error that the model's name asks for."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != "Bearer secret":
            self._reply(401, {"error": {"message": "a key is needed"}})
        elif asked["model"] == "short":
            self._reply(200, {"data": [{"index": 0, "embedding": [1.0]}]})
        elif asked["model"] != MODEL_NAME or not all(asked["input"]):
            self._reply(404, {"error": {"message": "there is no such model, or a text is empty"}})
        else:
            vectors = EMBEDDER.embed(asked["input"]).tolist()
            data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
            self._reply(200, {"data": data[::-1], "model": MODEL_NAME})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # The library's name.
        """Print nothing."""

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    ThreadingHTTPServer((LOOPBACK, int(sys.argv[1])), Handler).serve_forever()
