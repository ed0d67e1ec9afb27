"""Callables in child processes: results, failures, and that no process outlives its worker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import workers.children.isolated
from coordinator.steps.run_kind import CallFailed
from tests.support.fleets import ROOT, environment
from tests.support.wait import process_alive, wait_until, wait_until_sync
from workers.children.isolated import IsolatedCalls

pytestmark = pytest.mark.anyio
HERE = "tests.workers.callables"


@pytest.fixture(autouse=True)
def findable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets children import the callables of tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
async def calls() -> AsyncIterator[IsolatedCalls]:
    calls = IsolatedCalls(2)
    yield calls
    await calls.stop()


async def test_a_call_returns_the_result_of_the_function(calls: IsolatedCalls) -> None:
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 2}, "k") == 3
    assert await calls.call(f"{HERE}:waits", {"value": "é"}, "k") == "é"
    assert await calls.call(f"{HERE}:Thing.method", {}, "k") == {"nested": [1, None]}
    assert await calls.call(f"{HERE}:key", {}, "run-1") == "run-1"
    assert len(await calls.call(f"{HERE}:huge", {"size": 3_000_000}, "k")) == 3_000_000


async def test_the_idempotency_key_is_an_argument_where_there_is_a_parameter_for_it(calls: IsolatedCalls) -> None:
    assert await calls.call(f"{HERE}:key_given", {}, "run-1") == ["run-1", "-", "run-1"]
    assert await calls.call(f"{HERE}:key_given", {"label": "x"}, "run-2") == ["run-2", "x", "run-2"]
    assert await calls.call(f"{HERE}:key_given", {"idempotency_key": "own"}, "run-3") == ["own", "-", "run-3"]
    assert await calls.call(f"{HERE}:takes_all", {"a": 1}, "run-4") == {"a": 1}


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [
        ("add", {"a": 1, "b": 2, "c": 3, "d": 4}, "args: no such argument: c, d; allowed: a, b"),
        ("add", {}, "args: required: a, b"),
        ("key_given", {"labl": "x"}, "args: no such argument: labl; allowed: label"),
        ("key", {"x": 1}, "args: no such argument: x; allowed: none"),
    ],
)
async def test_wrong_arguments_are_explained(
    calls: IsolatedCalls, function: str, arguments: dict[str, object], problem: str
) -> None:
    with pytest.raises(CallFailed) as failed:
        await calls.call(f"{HERE}:{function}", arguments, "k")
    assert (str(failed.value), failed.value.type) == (problem, "VALIDATION_ERROR")


async def test_a_child_stays_for_the_next_call_and_is_replaced_in_time(
    calls: IsolatedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.children.isolated, "CALLS", 3)
    seen = [await calls.call(f"{HERE}:who", {}, "k") for _ in range(4)]
    pids = [pid for pid, _, _ in seen]
    assert pids[0] == pids[1] == pids[2] != pids[3]
    assert [count for _, _, count in seen] == [1, 2, 3, 1]
    assert {parent for _, parent, _ in seen} == {os.getpid()}
    await wait_until(lambda: not process_alive(pids[0]))


async def test_a_child_that_ended_between_calls_fails_none(calls: IsolatedCalls) -> None:
    pid, _, _ = await calls.call(f"{HERE}:who", {}, "k")
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not any(child.alive for child in calls.children))
    other, _, _ = await calls.call(f"{HERE}:who", {}, "k")
    assert other != pid
    assert len(calls.children) == 1  # a process id that may be reused is not signalled


async def test_no_more_children_than_allowed(calls: IsolatedCalls) -> None:
    seen = await asyncio.gather(*(calls.call(f"{HERE}:who", {}, "k") for _ in range(20)))
    assert len({pid for pid, _, _ in seen}) <= 2


async def test_printed_output_goes_to_the_log_and_not_into_the_answer(
    calls: IsolatedCalls, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert await calls.call(f"{HERE}:loud", {}, "k") == "quiet"
    # Its output is logged although it is killed.
    await calls.stop()
    out, log = capfd.readouterr()
    assert (out, sorted(log.splitlines())) == ("", ["on descriptor 1", "on stderr", "on stdout"])


async def test_files_in_the_working_directory_are_not_imported(
    calls: IsolatedCalls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 2}, "k") == 3


@pytest.mark.parametrize(
    ("target", "arguments", "message", "kind"),
    [
        (f"{HERE}:raises", {"text": "no such title"}, "no such title", "ValueError"),
        (f"{HERE}:raises", {"text": ""}, "ValueError", "ValueError"),
        (f"{HERE}:add", {"a": 1}, "args: required: b", "VALIDATION_ERROR"),
        (f"{HERE}:no_json", {}, "Encoding objects of type object is unsupported", "TypeError"),
        (
            f"{HERE}:deep",
            {"levels": 100_000},
            "the callable returned a value that is nested too deep",
            "invalid_result",
        ),
        (f"{HERE}:missing", {}, "has no attribute 'missing'", "AttributeError"),
        ("no_such_module:f", {}, "No module named 'no_such_module'", "ModuleNotFoundError"),
        (f"{HERE}:ends", {"code": 3}, "the process of the callable ended with code 3", "crashed"),
        (f"{HERE}:dies", {}, "the process of the callable was ended by signal 9", "crashed"),
        (f"{HERE}:says", {"code": 0xD800}, "bad ? text", "ValueError"),
    ],
)
async def test_failures(
    calls: IsolatedCalls, target: str, arguments: dict[str, object], message: str, kind: str
) -> None:
    with pytest.raises(CallFailed) as caught:
        await calls.call(target, arguments, "k")
    assert message in str(caught.value)
    assert caught.value.type == kind
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 1}, "k") == 2


async def test_an_answer_that_is_too_long_is_a_failure(calls: IsolatedCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.children.isolated, "MAX_REPLY_BYTES", 1000)
    with pytest.raises(CallFailed, match="more than 1000 bytes"):
        await calls.call(f"{HERE}:huge", {"size": 2000}, "k")
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 1}, "k") == 2


async def test_an_answer_nested_too_deeply_for_the_worker(
    calls: IsolatedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwhelmed(answer: bytes) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(workers.children.isolated, "decode_reply", overwhelmed)
        with pytest.raises(CallFailed, match="nested too deep"):
            await calls.call(f"{HERE}:deep", {"levels": 10}, "k")
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 1}, "k") == 2


@pytest.mark.parametrize("target", ["spins", "sleeps"])
async def test_a_cancelled_call_kills_its_child(calls: IsolatedCalls, tmp_path: Path, target: str) -> None:
    started = tmp_path / "pid"
    call = asyncio.create_task(calls.call(f"{HERE}:{target}", {"started": str(started)}, "k"))
    pid = int(await wait_until(lambda: started.exists() and started.read_text()))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_until(lambda: not process_alive(pid))
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 1}, "k") == 2


async def test_a_fork_of_a_child_does_not_answer(calls: IsolatedCalls) -> None:
    for number in range(3):
        pid = await calls.call(f"{HERE}:doubles", {}, "k")
        assert await calls.call(f"{HERE}:add", {"a": number, "b": 0}, "k") == number
        assert (await calls.call(f"{HERE}:who", {}, "k"))[0] == pid


async def test_the_end_of_a_child_is_noticed_although_its_fork_lives(calls: IsolatedCalls, tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match="ended with code 4"):
        await calls.call(f"{HERE}:leaves_a_copy", {"started": str(tmp_path / "pid")}, "k")
    assert await calls.call(f"{HERE}:add", {"a": 1, "b": 1}, "k") == 2


async def test_processes_started_by_a_callable_end_with_it(calls: IsolatedCalls, tmp_path: Path) -> None:
    started = tmp_path / "pid"
    call = asyncio.create_task(calls.call(f"{HERE}:starts_another", {"started": str(started)}, "k"))
    pid = int(await wait_until(lambda: started.exists() and started.read_text()))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_until(lambda: not process_alive(pid))


async def test_closing_ends_all_children(tmp_path: Path) -> None:
    calls = IsolatedCalls(2)
    started = tmp_path / "pid"
    call = asyncio.create_task(calls.call(f"{HERE}:sleeps", {"started": str(started)}, "k"))
    (idle, _, _) = await calls.call(f"{HERE}:who", {}, "k")
    pid = int(await wait_until(lambda: started.exists() and started.read_text()))
    await calls.stop()
    assert not process_alive(pid)
    assert not process_alive(idle)
    with pytest.raises(CallFailed):
        await call


_WORKER = """
import asyncio, sys
from workers.children.isolated import IsolatedCalls
asyncio.run(IsolatedCalls(1).call("tests.workers.callables:spins", {"started": sys.argv[1]}, "k"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death")
def test_a_child_ends_with_its_worker(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(started)], env=environment())
    try:
        pid = int(wait_until_sync(lambda: started.exists() and started.read_text(), what="the child") or 0)
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    wait_until_sync(lambda: not process_alive(pid), what="the child to end")
