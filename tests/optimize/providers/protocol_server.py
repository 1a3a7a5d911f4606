"""A small server that speaks both protocols as their documents say, and fails when it is told to."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = tuple[int, Any]
HANG = (0, "hang")
CUT = (0, "cut")


def overloaded(status: int = 503) -> Answer:
    """What an overloaded server says."""
    return status, {"error": {"type": "overloaded_error", "message": "too much to do"}}


class ProtocolServer:
    """Gives the planned answers one after the other, then proper ones; remembers what it was asked."""

    def __init__(self, *plan: Answer) -> None:
        self.plan = list(plan)
        self.asked: list[dict[str, Any]] = []
        self.tool_call: dict[str, Any] | None = None
        self.stopped: str | None = None
        self._released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append({"path": self.path, **body})
                status, answer = server.plan.pop(0) if server.plan else (200, server.answer(self.path, body))
                if (status, answer) == HANG:
                    server._released.wait(20)
                if status == 0:
                    self.close_connection = True
                    return
                streamed = status == 200 and body.get("stream") and isinstance(answer, dict)
                content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                if streamed:
                    content = b"".join(_events(self.path, answer))
                self.send_response(status)
                self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A proper answer: the last thing that was said, backwards; or the call of a tool that is planned or
        must be made.
        """
        forced = body.get("tool_choice", {}).get("name")
        if forced:
            self.tool_call = {"name": forced, "arguments": {"sum": 4}}
        last = body["messages"][-1]["content"]
        said = (
            last
            if isinstance(last, str)
            else next(iter(last[0].get(key) for key in ("text", "content") if key in last[0]))
        )
        call, text = self.tool_call, said[::-1]
        self.tool_call = None
        if path.endswith("/messages"):
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
            if call:
                blocks = [
                    {"type": "tool_use", "id": "call-1", "name": call["name"], "input": call["arguments"]}
                ]
            return {
                "id": "msg-1",
                "type": "message",
                "role": "assistant",
                "model": body["model"] + "-2026",
                "content": blocks,
                "stop_reason": self.stopped or ("tool_use" if call else "end_turn"),
                "stop_sequence": None,
                "usage": {"input_tokens": 11, "output_tokens": 7},
            }
        if "response_format" in body:
            text = '{"sum": 4}'
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if call:
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call-1", "type": "function", "function": function}],
            }
        return {
            "id": "chat-1",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"] + "-2026",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": self.stopped or ("tool_calls" if call else "stop"),
                }
            ],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _events(path: str, answer: dict[str, Any]) -> Iterator[bytes]:
    """The answer as a stream of server-sent events, its text in pieces of one character."""
    if path.endswith("/messages"):
        start = {
            **answer,
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 11, "output_tokens": 1},
        }
        text = answer["content"][0]["text"]
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
                for piece in text
            ),
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": answer["stop_reason"], "stop_sequence": None},
                "usage": {"output_tokens": 7},
            },
            {"type": "message_stop"},
        ]
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        return
    [choice] = answer["choices"]
    chunk = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    deltas = [
        {"role": "assistant", "content": ""},
        *({"content": piece} for piece in choice["message"]["content"]),
    ]
    chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks += [{**chunk, "choices": [last]}, {**chunk, "choices": [], "usage": answer["usage"]}]
    for one in chunks:
        yield f"data: {json.dumps(one)}\n\n".encode()
    yield b"data: [DONE]\n\n"
