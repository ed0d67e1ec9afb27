"""The checkers that guard the other tests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from coordinator.store import keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.support import leaks
from tests.support.wait import NotReached, process_alive, wait_until_sync

FAMILIES = keys.FAMILIES["project"]
STAYS = next(family for family in FAMILIES.values() if family.reason and family.type == "hash" and not family.single)
GOES = next(family for family in FAMILIES.values() if family.ttl and family.type == "string" and not family.single)

LEAKING = """
import os, subprocess, sys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.store.embedded.server import EmbeddedServer

def test_leaves_a_key(redis_url, project):
    with redis_client(parse(redis_url)) as client:
        client.set("fc:{%s}:nosuchfamily:1" % project, "x")

def test_leaves_none(redis_url, project):
    with redis_client(parse(redis_url)) as client:
        assert not client.keys("*nosuchfamily*")

def test_leaves_processes(tmp_path):
    wait = [sys.executable, "-c", "import sys, os; print(os.getpid(), flush=True); sys.stdin.read()"]
    read, write = os.pipe()
    orphan = [sys.executable, "-c", "import subprocess, sys; subprocess.Popen(sys.argv[1:])", *wait]
    subprocess.run(orphan, stdin=read, pass_fds=(write,), start_new_session=True, cwd="/", check=True)
    server = EmbeddedServer(tmp_path)
    server.start()
    print(f"server {server.pid}")
    globals()["kept"] = (server, write)
"""


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis_client(parse(redis_url)) as client:
        yield client


def test_keys_with_a_declared_reason_are_no_leak(client: redis.Redis, project: str) -> None:
    client.hset(STAYS.key(project, "1"), "a", "b")
    client.set(GOES.key(project, "1"), "x", px=60000)
    assert leaks.leaked_keys(client, project) == []


def test_each_kind_of_leak_is_reported(client: redis.Redis, project: str) -> None:
    client.set(keys.project_prefix(project) + b"nosuchfamily:1", "x", px=60000)
    client.set(STAYS.key(project, "1"), "x")
    client.set(GOES.key(project, "1"), "x")
    undeclared, endless, mistyped = (
        f"fc:{{{project}}}:{suffix}:1" for suffix in ("nosuchfamily", GOES.suffix, STAYS.suffix)
    )
    assert leaks.leaked_keys(client, project) == sorted(
        [
            f"{undeclared} (string) belongs to no declared family",
            f"{endless} has no time to live, but the family {GOES.name} is declared with one",
            f"{mistyped} is a string, but the family {STAYS.name} is declared as hash",
        ]
    )
    leaks.delete_keys(client, project)


def test_keys_of_other_projects_are_no_leak(client: redis.Redis, project: str) -> None:
    other = f"{project}x"
    client.set(STAYS.key(other, "1"), "x")
    client.mset({STAYS.key(project, str(n)): "x" for n in range(1200)})
    assert len(leaks.leaked_keys(client, project)) == 1200
    leaks.delete_keys(client, project)
    assert leaks.leaked_keys(client, project) == []
    assert leaks.leaked_keys(client, other) != []
    leaks.delete_keys(client, other)


def test_a_session_that_leaks_fails(tmp_path: Path) -> None:
    """A session of its own, which leaves a key, an orphan and a server."""
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:randomly", "-s", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={tmp_path / 'base'}", tmp_path / "test_leaking.py"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "3 passed, 2 errors" in done.stdout
    assert "keys left behind" in done.stdout
    assert "nosuchfamily:1 (string) belongs to no declared family" in done.stdout
    left = re.search(r"AssertionError: processes left behind: (.*)", done.stdout)
    assert left is not None, done.stdout
    server = int(re.findall(r"server (\d+)", done.stdout)[0])
    pids = [int(pid) for pid in re.findall(r"Process\(pid=(\d+)", left[1])]
    assert server in pids
    assert len(pids) == 2
    for pid in pids:
        wait_until_sync(lambda: not process_alive(pid), what="the end of what was left")  # noqa: B023


def test_waiting_ends_with_the_awaited_condition() -> None:
    values = iter([None, 0, "", "here", "later"])
    assert wait_until_sync(lambda: next(values)) == "here"
    with pytest.raises(NotReached, match=r"not within 0\.01 s: rain"):
        wait_until_sync(lambda: False, timeout=0.01, what="rain")


def test_a_zombie_does_not_count_as_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process_alive(process.pid)
    process.stdin.close()
    wait_until_sync(lambda: not process_alive(process.pid))
    process.wait()
    assert not process_alive(process.pid)
