"""A separate PostgreSQL server in a temporary folder, with a typical work queue."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.support import Failed, Missing, children, until


class Workload(NamedTuple):
    """The transaction that clients repeat."""

    statements: str
    protocol: Literal["prepared", "simple"]
    """"simple" sends each statement as text, which the server parses and plans every time."""


# A variable is a parameter of a prepared statement; in one that is sent as text it is replaced by its value.
_CLAIM_AND_COMPLETE = r"""
UPDATE items SET role = 'work', claimed_by = 'agent-' || :client_id::text,
       claim_expires = now() + interval '15 minutes', fence = fence + 1
 WHERE id = (SELECT id FROM items WHERE role = 'queue' ORDER BY priority, complexity, created
              LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id \gset
UPDATE items SET role = 'terminal', role_changed = now()
 WHERE id = {id}::uuid AND claimed_by = 'agent-' || :client_id::text;
"""
PREPARED = Workload(_CLAIM_AND_COMPLETE.format(id=":id"), "prepared")
AS_TEXT = Workload(_CLAIM_AND_COMPLETE.format(id="':id'"), "simple")
_CLAIM_AND_COMPLETE_WITH_RECORDS = r"""
SELECT claim('agent-' || :client_id::text, gen_random_uuid()) AS id \gset
SELECT complete('agent-' || :client_id::text, gen_random_uuid(), :id::uuid);
"""
WITH_RECORDS = Workload(_CLAIM_AND_COMPLETE_WITH_RECORDS, "prepared")
_RECORDS = Path(__file__).with_name("records.sql")
_TABLE = """
CREATE TABLE items (id uuid PRIMARY KEY, parent uuid, title text NOT NULL, role text NOT NULL,
  priority smallint NOT NULL, complexity smallint NOT NULL, created timestamptz NOT NULL, role_changed timestamptz,
  claimed_by text, claim_expires timestamptz, fence bigint NOT NULL DEFAULT 0);
INSERT INTO items (id, parent, title, role, priority, complexity, created)
  SELECT gen_random_uuid(), lpad(to_hex(n / {family}), 32, '0')::uuid, rpad('design login ' || n, 60, 'x'), 'queue',
         (n * 7 % 3), (n * 11 % 10), now() - n * interval '1 millisecond' FROM generate_series(1, {items}) n;
CREATE INDEX ready ON items (priority, complexity, created) WHERE role = 'queue';
"""
# Durable by default; the other settings only avoid unrelated work.
_OPTIONS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "max_connections": "120",
    "log_min_messages": "fatal",
}


class Rate(NamedTuple):
    """What one run of pgbench measured."""

    per_second: float
    client_cpu_us: float
    """CPU time of pgbench per cycle."""
    server_cpu_us: float
    """CPU time of all processes of the server per cycle."""


def binaries() -> Path:
    """The folder with initdb, postgres and pgbench, the newest version first.

    Raises:
        Missing: there is none.
    """
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    if on_path := shutil.which("initdb"):
        folders.append(Path(on_path).parent)
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres", "psql", "pgbench")):
            return folder
    raise Missing("initdb, postgres, psql and pgbench are not installed (Debian: apt-get install postgresql)")


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise Missing("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


class PostgreSQL:
    """A running server."""

    def __init__(self, folder: Path, bin_dir: Path, user: str | None) -> None:
        self._folder, self._bin, self._user = folder, bin_dir, user
        self.pid = 0
        """The process id of the postmaster."""

    def _run(self, name: str, *arguments: str, stdin: str = "") -> str:
        made = subprocess.run(
            [str(self._bin / name), *arguments],
            input=stdin, capture_output=True, text=True, user=self._user, cwd=self._folder, check=False,
        )  # fmt: skip
        if made.returncode:
            raise Failed(f"{name}: {made.stderr.strip()[-500:]}")
        return made.stdout

    def sql(self, text: str) -> str:
        """Runs statements; returns what psql prints."""
        return self._run("psql", "-h", str(self._folder), "-d", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", stdin=text)

    @property
    def folder(self) -> Path:
        """Where its socket is."""
        return self._folder

    def fill(self, items: int, family: int) -> None:
        """Makes the table of items, so many of which have one parent."""
        self.sql(_TABLE.format(items=items, family=family) + "CHECKPOINT; VACUUM ANALYZE items;")

    def keep_records(self) -> None:
        """Makes the tables and functions of ``WITH_RECORDS``."""
        self.sql(_RECORDS.read_text())

    def completed(self) -> int:
        """How many items are completed."""
        return int(self.sql("SELECT count(*) FROM items WHERE role = 'terminal'"))

    def tidy(self) -> None:
        """Vacuums, as autovacuum would eventually: dead rows slow down later scans."""
        self.sql("VACUUM ANALYZE items;")

    def cycles(self, clients: int, count: int, workload: Workload) -> Rate:
        """Claims and completes ``count`` items with ``clients`` connections."""
        script = self._folder / "cycle.sql"
        script.write_text(workload.statements)
        before, work = os.times(), self._cpu()
        text = self._run(
            "pgbench", "-h", str(self._folder), "-n", "-M", workload.protocol, "-c", str(clients), "-j", "1",
            "-t", str(count // clients), "-f", str(script), "postgres",
        )  # fmt: skip
        after = os.times()
        rate = re.search(r"tps = ([\d.]+) \(without initial", text)
        done = re.search(r"actually processed: (\d+)", text)
        if rate is None or done is None or int(done[1]) != count // clients * clients:
            raise Failed(f"pgbench said: {text}")
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Rate(float(rate[1]), cpu / int(done[1]) * 1e6, (self._cpu() - work) / int(done[1]) * 1e6)

    def _cpu(self, seconds: float = 10) -> float:
        """CPU seconds of the server so far, including those of closed connections."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(b"[local]" in _file(pid, "cmdline") for pid in children(self.pid)):
            time.sleep(0.01)  # connections are just closing; their time then counts with the parent's
        own = sum(_stat(self.pid)[:4])
        theirs = sum(sum(_stat(pid)[:2]) for pid in children(self.pid))
        return (own + theirs) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[float]:
    """CPU ticks of a process: user, system, and both of reaped children."""
    return [float(field) for field in _file(pid, "stat").rpartition(b")")[2].split()[11:15]]


def _file(pid: int, name: str) -> bytes:
    """A file of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Starts a server and removes it afterwards.

    Raises:
        Missing: it cannot be run here.
    """
    bin_dir, user = binaries(), _user()
    with tempfile.TemporaryDirectory(prefix="fleet-bench-pg-") as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)
        server = PostgreSQL(folder, bin_dir, user)
        data = folder / "data"
        server._run("initdb", "-D", str(data), "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C")
        options = [f"-c{key}={value}" for key, value in _OPTIONS.items()]
        command = [str(bin_dir / "postgres"), "-D", str(data), "-k", str(folder), *options]
        os.environ["PGUSER"] = "postgres"
        process = subprocess.Popen(command, user=user, cwd=folder, stderr=subprocess.DEVNULL)
        try:
            server.pid = process.pid
            until(lambda: _ready(server, process), "PostgreSQL answers")
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(server: PostgreSQL, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise Failed(f"PostgreSQL ended with {process.returncode}")
    with contextlib.suppress(Failed):
        server.sql("SELECT 1")
        return True
    return False
