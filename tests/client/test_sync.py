"""The same without an event loop."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from coordinator.client import ClaimLost, Fleet, NotFound, SyncFleet, sync
from coordinator.client.flows import Run
from coordinator.client.job import Job
from coordinator.client.trees import Tree
from tests.client.plans import FLOW, RELEASE
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until_sync


@pytest.mark.parametrize(
    ("ours", "theirs", "only"),
    [
        (
            sync.SyncFleet,
            Fleet,
            {"at", "busy", "feed", "settle"},
        ),
        (
            sync.SyncJob,
            Job,
            {
                "check_claim",
                "enter",
                "entered",
                "halt",
                "interrupt",
                "is_whole",
                "leave",
                "look",
                "read_whole",
                "stopping",
            },
        ),
        (sync.SyncTree, Tree, set()),
        (sync.SyncRun, Run, set()),
    ],
)
def test_names_are_the_same(ours: type, theirs: type, only: set[str]) -> None:
    public = {name for name in dir(theirs) if not name.startswith("_")}
    missing = {name for name in public - only if not hasattr(ours, name)}
    assert missing - {"id", "title", "description", "attempt"} == set()


def test_a_script_plans_works_and_reads(running: RunningFleet, named: str) -> None:
    with SyncFleet(running.state.base_url, project=named) as opened:
        tree = opened.plan(RELEASE)
        done = []
        for job in opened.jobs(until=tree):
            with job:
                assert job.role == "work"
                job.note("plan", "quick")
                job.done({"of": job.title})
                done.append((job.title, [one["title"] for one in job.results]))
        assert done == [("Build", []), ("Write notes", ["Build"]), ("Publish", ["Build", "Write notes"])]
        assert tree.finished(timeout=10)["terminal"] == 3
        assert tree.results()["build"] == {"of": "Build"}
        assert {item["title"] for item in tree.items()} == {"Build", "Write notes", "Publish"}
        assert [event["data"]["to"] for event in tree.events(["item.transition"], after="oldest")].count(
            "terminal"
        ) == 4
        with pytest.raises(NotFound):
            opened.tree("dead0000").finished()
        run = opened.flow("triage", FLOW)
        for gate in run.approvals():
            run.approve(gate["id"])
        assert "recommendations" in run.result(timeout=20)
        assert threading.active_count() > 1
    assert not [one for one in threading.enumerate() if "fleet" in one.name]


def test_failures_and_lost_claims_end_a_job_and_not_the_loop(
    running: RunningFleet, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    with SyncFleet(running.state.base_url, project=named) as opened:
        opened.call("manage_items", {"operation": "create", "items": [{"title": "one"}]})
        outcomes: list[str] = []
        for job in opened.jobs(wait=False, ttl=1):
            with job:
                if not outcomes:
                    outcomes.append("failed")
                    raise LookupError
                outcomes.append("lost")
                opened.call("claim_item", {"releases": [{"itemId": job.id}]}, agent=job.agent)
                wait_until_sync(partial(getattr, job, "lost"), what="the loss")
                with pytest.raises(ClaimLost):
                    job.note("plan", "x")
                opened.stop()
                job.check()
            assert job.outcome == outcomes[-1]
        assert outcomes == ["failed", "lost"]
    assert "LookupError" in caplog.text


@pytest.mark.parametrize("signals", [1, 2], ids=["the drain is over", "a second signal"])
def test_threads_are_told_when_they_have_to_end(running: RunningFleet, named: str, signals: int) -> None:
    with SyncFleet(running.state.base_url, project=named) as opened:
        opened.call("manage_items", {"operation": "create", "items": [{"title": "one"}]})

        def handler(job: sync.SyncJob) -> None:
            main = threading.main_thread().ident
            assert main is not None
            for number in (signal.SIGINT, signal.SIGTERM)[:signals]:
                # Two of a kind may arrive as one; one that another thread gets does not wake the main thread.
                signal.pthread_kill(main, number)
            wait_until_sync(partial(getattr, job, "lost"), what="the end")
            job.progress("half")
            job.check()

        with pytest.raises(KeyboardInterrupt) if signals == 2 else nullcontext():
            opened.work(handler, drain=0.1 if signals == 1 else 60)
        (item,) = opened.call("query_items", {"operation": "search"})["items"]

        def given_back() -> bool:
            found = opened.call("get_context", {"itemId": item["id"]})
            return (found.get("claimDetail"), found.get("attempts")) == (None, None)

        wait_until_sync(given_back, what="the release, uncounted")  # the interrupt does not wait for it


def test_work_runs_in_threads_until_a_signal(running: RunningFleet, named: str) -> None:
    with SyncFleet(running.state.base_url, project=named) as opened:
        items: list[dict[str, Any]] = [{"title": title} for title in "abc"]
        opened.call("manage_items", {"operation": "create", "items": items})
        both = threading.Barrier(2)

        def handler(job: sync.SyncJob) -> None:
            if job.title in "ab":
                both.wait(20)
                if job.title == "a":
                    os.kill(os.getpid(), signal.SIGTERM)
            job.done()

        opened.work(handler, slots=2)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        counts = opened.call("query_items", {"operation": "search", "role": "terminal"})["items"]
        assert {item["title"] for item in counts} >= {"a", "b"}
