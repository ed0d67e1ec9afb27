"""Clients in child processes: what the parent has opened is of no use there, and must not hold them up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.fleets import RunningFleet

BEGIN = """
import asyncio, os, signal, sys, time
from coordinator.client import Fleet, SyncFleet

def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        work()
        sys.exit(7)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("child", ended, flush=True)

def call(fleet):
    try:
        fleet.call("query_items", {"operation": "search"})
    except RuntimeError as error:
        print(error, flush=True)

def keeps_claim(fleet):
    item = fleet.call("manage_items", {"operation": "create", "items": [{"title": "of the child"}]})["items"][0]["id"]
    for job in fleet.jobs(ttl=1, wait=False):
        with job:
            first = fleet.call("get_context", {"itemId": item})["claimDetail"]["claimExpiresAt"]
            while fleet.call("get_context", {"itemId": item})["claimDetail"]["claimExpiresAt"] == first:
                os.sched_yield()
            job.done()
        print(job.title, job.outcome, flush=True)

url, project = sys.argv[1:]
"""
OPENED = """
with SyncFleet(url, project=project, agent="w") as fleet:
    fleet.call("manage_items", {"operation": "create", "items": [{"title": "one"}]})
"""
JOB = (
    OPENED
    + """
    for job in fleet.jobs(wait=False):
        with job:
            %s
            job.done()
        print(job.outcome, flush=True)
"""
)
REFUSED = "this client was opened in another process"


def run(script: str, running: RunningFleet, project: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + script, running.state.base_url, project],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "use",
    [
        "call(fleet)",
        "next(fleet.jobs(wait=False))",
        "fleet.work(print, signals=False)",
        "fleet.plan({'title': 'Tree', 'children': []})",
        "fleet.stop()",
        "SyncFleet.__enter__(fleet)",
    ],
)
def test_a_call_in_a_child_is_refused_at_once(running: RunningFleet, named: str, use: str) -> None:
    script = f"""
    def work():
        try:
            {use}
        except RuntimeError as error:
            print(error, flush=True)
    child(work)
    print(fleet.call("query_items", {{"operation": "search"}})["total"])
"""
    *refused, ended, total = run(OPENED + script, running, named)
    assert all(line.startswith(REFUSED) and "after the fork" in line for line in refused)
    assert (len(refused), ended, total) == (1, "child 7", "1")


@pytest.mark.parametrize(
    ("leaves", "code"), [("sys.exit(3)", 3), ("int('x')", 1), ("os._exit(4)", 4), ("job.progress('half')", 1)]
)
def test_a_child_that_leaves_the_block_of_a_job_leaves_the_job_alone(
    running: RunningFleet, named: str, leaves: str, code: int
) -> None:
    assert run(JOB % f"child(lambda: {leaves})", running, named) == [f"child {code}", "done"]


def test_a_child_that_comes_back_from_a_handler_ends(running: RunningFleet, named: str) -> None:
    script = """
    def handler(job):
        for leaves in (lambda: int("x"), sys.exit, lambda: sys.exit(5)):
            child(leaves)
        if os.fork() == 0:
            return
        print("child", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
        job.done()
        fleet.stop()

    fleet.work(handler)
"""
    assert run(OPENED + script, running, named) == ["child 1", "child 0", "child 5", "child 0"]


def test_a_child_hears_signals_as_before(running: RunningFleet, named: str) -> None:
    script = """
    def handler(job):
        told, tells = os.pipe()
        if (pid := os.fork()) == 0:
            signal.alarm(20)
            os.write(tells, b".")  # a signal that comes before Python has seen to the fork is lost
            while True:
                time.sleep(0.01)  # pause() would not see one that comes just before it
        os.read(told, 1)
        os.kill(pid, signal.SIGTERM)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        job.done()
        fleet.stop()

    fleet.work(handler)
"""
    assert run(OPENED + script, running, named) == ["child -15"]


def test_a_child_works_with_a_client_of_its_own(running: RunningFleet, named: str) -> None:
    """Also while the parent holds a claim: renewals are those of the child."""
    script = JOB % (
        "child(lambda: [keeps_claim(own) for own in [SyncFleet(url, project=project, agent='c').__enter__()]] and 0)"
    )
    assert run(script, running, named) == ["of the child done", "child 7", "done"]


def test_a_client_may_be_opened_after_the_fork(running: RunningFleet, named: str) -> None:
    script = """
fleet = SyncFleet(url, project=project, agent="w")

def work():
    with fleet:
        print(fleet.call("query_items", {"operation": "search"})["total"], flush=True)

child(work)
mine = SyncFleet(url, project=project)  # both would act by the name that it has given itself

def refused():
    try:
        with mine:
            pass
    except RuntimeError as error:
        print(error, flush=True)

child(refused)
"""
    first, *rest = run(script, running, named)
    assert first == "0"
    assert [line.partition(" (")[0] for line in rest] == ["child 7", REFUSED, "child 7"]


def test_calls_without_a_thread_are_refused_too(running: RunningFleet, named: str) -> None:
    script = """
async def use(fleet):
    for refused in (fleet.call("query_items", {"operation": "search"}), fleet.feed(""), anext(fleet.jobs())):
        try:
            await refused
        except RuntimeError as error:
            print(error, flush=True)

async def main():
    async with Fleet(url, project=project, agent="w") as fleet:
        await fleet.call("query_items", {"operation": "search"})
        child(lambda: asyncio.run(use(fleet)))
        print((await fleet.call("query_items", {"operation": "search"}))["total"])

asyncio.run(main())
"""
    lines = run(script, running, named)
    assert [line.partition(" (")[0] for line in lines] == [REFUSED] * 3 + ["child 7", "0"]


def test_a_child_does_not_take_a_job_that_has_come_for_the_parent(running: RunningFleet, named: str) -> None:
    script = """
async def main():
    async with Fleet(url, project=project, agent="w") as fleet:
        items = [{"title": "one"}, {"title": "two"}]
        await fleet.call("manage_items", {"operation": "create", "items": items})
        jobs = fleet.jobs(wait=False)
        async with await anext(jobs) as job:
            await job.done(next=True)
        if os.fork() == 0:
            try:
                jobs.__anext__().send(None)
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        async with await anext(jobs) as job:
            await job.done()
        print(job.title, job.outcome, flush=True)

asyncio.run(main())
"""
    said = run(script, running, named)
    assert REFUSED in said[0]
    assert said[1:] == ["two done"]
