"""The engine that a soak uses: the host's, or one of its own whose daemon may be killed without harm to others."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.runtimes import find
from runner.runtimes.docker_client import Engine, connect
from runner.runtimes.docker_errors import EngineError

CHEAP = "tests/runner/runtimes/data/cheap"
START_S = 180.0


@dataclass
class PrivateEngine:
    """A Docker engine, and the cheap image in it. ``folder`` is None for the host's own."""

    image: str
    folder: Path | None = None
    base: str = ""
    killed: bool = False
    _daemon: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def private(self) -> bool:
        return self.folder is not None

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/docker.sock" if self.folder else os.environ.get("DOCKER_HOST", "")

    def environ(self, project: Path) -> dict[str, str]:
        """The environment of a runner that uses this engine."""
        more = {"DOCKER_HOST": self.host} if self.host else {}
        return {**os.environ, **more, "PYTHONPATH": str(project)}

    def connect(self) -> Engine:
        """A connection to it."""
        before = os.environ.get("DOCKER_HOST")
        if self.host:
            os.environ["DOCKER_HOST"] = self.host
        try:
            return connect(timeout_s=10.0)
        finally:
            if before is None:
                os.environ.pop("DOCKER_HOST", None)
            else:
                os.environ["DOCKER_HOST"] = before

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        assert self.folder is not None
        folder = self.folder
        (folder / "docker.pid").unlink(missing_ok=True)
        # In a network namespace of its own: a daemon without a bridge removes docker0, and that is the host engine's
        # (moby libnetwork: removeDefaultBridgeInterface). Cells have no network, so nothing is missing here.
        argv = [
            "unshare",
            "--net",
            "dockerd",
            "--host",
            f"unix://{folder}/docker.sock",
            "--data-root",
            f"{folder}/data",
        ]
        argv += ["--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/docker.pid", "--bridge", "none"]
        argv += ["--iptables=false", "--ip-masq=false", "--containerd", self._containerd()]
        with (folder / "dockerd.log").open("ab") as log:
            self._daemon = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_S
        while True:
            try:
                with self.connect() as engine:
                    engine.version()
            except EngineError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _containerd(self) -> str:
        """One containerd for the life of this engine: it outlives its daemon, as a host's does."""
        assert self.folder is not None
        address = self.folder / "containerd.sock"
        if not address.exists():
            argv = ["containerd", "--address", str(address), "--root", f"{self.folder}/containerd"]
            argv += ["--state", f"{self.folder}/containerd-state", "--log-level", "warn"]
            with (self.folder / "containerd.log").open("ab") as log:
                self._side = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
            while not address.exists():
                time.sleep(0.05)
        return str(address)

    def daemon_pid(self) -> int:
        """The process id of the daemon of its own; from now on it counts as killed."""
        assert self._daemon is not None
        self.killed = True
        return self._daemon.pid

    def kill(self) -> None:
        """SIGKILL the daemon."""
        assert self._daemon is not None
        self.killed = True
        self._daemon.kill()
        self._daemon.wait()

    @classmethod
    @contextlib.contextmanager
    def started(cls, project: Path) -> Iterator[PrivateEngine]:
        """An engine of its own under /run (short paths: a socket's name is bounded), with the cheap image and its base in it."""
        with engine_of_host() as host:
            image, base = host.image, host.base
        folder = Path(tempfile.mkdtemp(prefix="soak-engine-", dir="/var/lib"))
        self = cls(image=image, folder=folder)
        try:
            self.start()
            with subprocess.Popen(["docker", "save", image, base], stdout=subprocess.PIPE) as saved:
                subprocess.run(
                    ["docker", "-H", self.host, "load"], stdin=saved.stdout, check=True, capture_output=True
                )
            yield self
        finally:
            for process in (self._daemon, getattr(self, "_side", None)):
                if process is not None:
                    process.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(20)
            held = Path("/proc/mounts").read_text().split()
            for mount in sorted((each for each in held if each.startswith(f"{folder}/")), reverse=True):
                subprocess.run(["umount", mount], check=False)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def engine_of_host() -> Iterator[PrivateEngine]:
    """The engine that answers here; only containers are killed in it."""
    project = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as logs:
        runtime = find("docker", root=project, cache=project / ".cache" / "runtimes")
        ready = runtime.image(CHEAP, Path(logs) / "build.log")
    yield PrivateEngine(image=ready.ref, base=ready.base.partition(" ")[0])
