"""A real PostgreSQL for the tests: started once for a session, on a free port, with its data in a temporary folder."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USER = "postgres"
ROOM = 1024**3  # bytes
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql@*/bin")


def find_programs() -> Path | None:
    """The folder with initdb and postgres."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = [
        folder for place in PLACES for folder in Path("/").glob(place.lstrip("/")) if (folder / "initdb").exists()
    ]
    return max(
        folders,
        key=lambda folder: [int(part) for part in folder.parent.name.split(".") if part.isdigit()],
        default=None,
    )


def why_not() -> str:
    """Why there can be no PostgreSQL here; empty: there can."""
    if find_programs() is None:
        return "needs PostgreSQL (initdb was not found; ./run installs Debian's where it is root)"
    if os.getuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"needs a user `{USER}`: PostgreSQL does not run as root"
    return ""


class Server:
    """One PostgreSQL server, and databases on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        self._programs = find_programs() or Path()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._as = pwd.getpwnam(USER) if os.getuid() == 0 else None
        self.process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make the cluster's files."""
        if self._as is not None:
            os.chown(self.folder, self._as.pw_uid, self._as.pw_gid)
        self._run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            f"--username={USER}",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
            self.data,
        )

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def start(self, *, is_durable: bool = False) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "max_connections": 200,
        }
        if not is_durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [self._programs / "postgres", "-D", self.data, *options], stdout=log, stderr=log, **self._identity()
        )
        log.close()
        self.wait()

    def wait(self) -> None:
        """Return when it answers."""
        until = time.monotonic() + 60
        while self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), is_checked=False):
            if time.monotonic() > until or (self.process is not None and self.process.poll() is not None):
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self, signal: str = "fast") -> None:
        """Stop it: "fast" as one should, "immediate" as a power cut does."""
        if self.process is not None:
            self._run("pg_ctl", "-D", self.data, "-m", signal, "-w", "stop", is_checked=False)
            self.process.wait(30)
            self.process = None

    def address(self, database: str) -> str:
        """Where a database is."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "") -> str:
        """A new database; its name."""
        import psycopg

        self._count += 1
        name = f"detent_{os.getpid()}_{self._count}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}" + (f" template {template}" if template else ""))
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is still connected."""
        import psycopg

        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)")

    def _identity(self) -> dict[str, Any]:
        if self._as is None:
            return {}
        return {"user": self._as.pw_uid, "group": self._as.pw_gid, "extra_groups": [], "cwd": "/"}

    def _run(self, program: str, *arguments: str, is_checked: bool = True) -> int:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, check=False, **self._identity()
        )
        if is_checked and done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])
        return int(done.returncode)


def _find_memory() -> str | None:
    """A folder in memory, where a disk would only cost time; None: there is none with room."""
    shared = "/dev/shm"  # noqa: S108
    with contextlib.suppress(OSError):
        if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > ROOM:
            return shared
    return None


@contextlib.contextmanager
def running(*, is_durable: bool = False) -> Iterator[Server]:
    """A server while the block goes on; a durable one is on a disk and waits for it."""
    with tempfile.TemporaryDirectory(prefix="detent-postgres-", dir=None if is_durable else _find_memory()) as folder:
        os.chmod(folder, 0o755)  # noqa: S103  # the server is another user
        inner = Path(folder) / "cluster"
        inner.mkdir()
        server = Server(inner)
        server.make()
        server.start(is_durable=is_durable)
        try:
            yield server
        finally:
            server.stop("immediate")
