"""A receiver of OTLP over HTTP, in a process of its own: it decodes what exporters send, by OpenTelemetry's
own protocol classes.

    python -m tests.server.otlp_receiver FILE

It prints its port, and writes each span as a line of JSON into the file. No collector can be installed from a
package index; this one takes the same bytes at the same path, and refuses what is no valid request.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def spans_in(body: bytes) -> list[dict[str, Any]]:
    """The spans of a request, each with the attributes of the process that sent it."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        {
            "name": span.name,
            "trace_id": span.trace_id.hex(),
            "parent_span_id": span.parent_span_id.hex(),
            "attributes": {one.key: one.value.string_value for one in span.attributes},
            "resource": {one.key: one.value.string_value for one in resource.resource.attributes},
            "status": span.status.code,
            "events": len(span.events),
        }
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


class Receiver(BaseHTTPRequestHandler):
    """Takes requests at the path of the protocol."""

    file: Path

    def do_POST(self) -> None:
        """Take one request, whose body may be compressed only as the protocol names."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_expected = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        try:
            spans = spans_in(body) if is_expected else []
        except DecodeError:
            is_expected = False
        self.send_response(200 if is_expected else 400)
        self.end_headers()
        if is_expected:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.writelines(json.dumps(span) + "\n" for span in spans)
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Receiver.file = Path(sys.argv[1])
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
