"""What attempts have used comes to the fleet, once: however they end, and whoever is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client import Fleet
from coordinator.client.metering import PARTS
from coordinator.runner.metrics import COST, USAGE_REFUSED
from coordinator.runner.presets import PRESETS
from coordinator.runner.protocols import Usage
from coordinator.runner.reports import telling
from coordinator.runner.reports.usage import Most, RunNote, further, total_of
from tests.client.backlog import Json, add, held, notes, seen
from tests.runner.hall import Hall, attempts
from tests.support import counts
from tests.support.fleets import RunningCommand, RunningFleet
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


AGENT = f"""#!/bin/sh
# Says what it has used, and goes on for a while.
exec "{sys.executable}" -c '
import json, os, sys, time
sys.stdin.read()
tokens = os.getpid() % 1000 + 1
event = dict(type="result", subtype="success", result="ok", total_cost_usd=tokens / 1000, usage=dict(output=tokens))
print(json.dumps(event | dict(modelUsage=dict(m=dict(outputTokens=tokens)))), flush=True)
time.sleep(tokens % 5 / 10)
'
"""
STREAMS = Path(__file__).parent / "streams"
GIVEN = {"inputTokens": 900, "cachedInputTokens": 400, "outputTokens": 70, "costUsd": 0.0025, "model": "m-1"}
TOLD = {"inputTokens": 900, "cachedTokens": 400, "outputTokens": 70, "costMicroUsd": 2_500, "tokens": 970}


async def used(fleet: Fleet, item: str) -> Json:
    """What is summed for an item, without the time."""
    own = dict((await seen(fleet, item)).get("usage", {}).get("own", {"wallMs": 0}))
    assert own.pop("wallMs") > 0
    return own


ENDS = [("", "done"), ("; exit 3", "failed"), ("; exit 65", "hopeless"), ("; touch ran; exec sleep 600", "later")]


@pytest.mark.parametrize(("end", "kind"), ENDS)
async def test_every_end_tells_what_was_used(hall: Hall, fleet: Fleet, end: str, kind: str) -> None:
    (item,) = await add(fleet, "one", maxAttempts=1)
    command = f"echo '{json.dumps({'usage': GIVEN})}' > $FLEET_RESULT_FILE{end}"
    running = asyncio.create_task(hall.run(command, max_items=1, drain=0.1))
    if kind == "later":
        await wait_until(lambda: (hall.work / "ran").exists())
        assert hall.runner is not None
        hall.runner.stop()
    await running
    note = json.loads((await notes(fleet, item))["run-1"])
    assert (note["outcome"], note["told"]["costMicroUsd"]) == (kind, TOLD["costMicroUsd"])
    assert await used(fleet, item) == TOLD
    assert hall.told("$0.0025")


@pytest.mark.parametrize("stream", [one.name for one in sorted(STREAMS.iterdir()) if "done" in one.name])
async def test_what_an_agent_prints_is_told(hall: Hall, fleet: Fleet, stream: str) -> None:
    (item,) = await add(fleet, "one")
    preset = replace(PRESETS[stream.partition("-")[0]], subcommand="")  # which would be one of the shell
    await hall.run(f"cat {quote(str(STREAMS / stream))}", max_items=1, preset=preset)
    reader = preset.reader()
    for line in (STREAMS / stream).read_bytes().splitlines():
        reader.line("stdout", line)
    expected = total_of(reader.reading().usage, 0)
    found = await used(fleet, item)
    assert found.pop("tokens") == expected["inputTokens"] + expected["outputTokens"] > 0
    assert found == {name: expected[name] for name in found}


async def test_a_running_attempt_tells_on_the_way_and_stops_when_a_budget_is_spent(
    hall: Hall, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "TELL_SECONDS", 0.1)
    (item,) = await add(fleet, "one", budget={"tokens": 20})
    event = {"type": "assistant", "message": {"id": "1", "usage": {"input_tokens": 20, "output_tokens": 5}}}
    script = f"echo '{json.dumps(event)}'; echo > begun; exec sleep 600"
    running = asyncio.create_task(hall.run(script, preset=PRESETS["claude"]))
    await wait_until(lambda: hall.told("handed back after"))
    assert hall.runner is not None
    hall.runner.stop()
    await running
    assert hall.told(f"is ended: the budget of item {item} is spent: 25 of 20 tokens")
    assert (await used(fleet, item))["tokens"] == 25
    note = json.loads((await notes(fleet, item))["run-1"])
    assert (note["outcome"], note["reason"]) == ("later", f"the budget of item {item} is spent: 25 of 20 tokens")
    assert (await attempts(fleet, item), await held(fleet)) == (0, 0)


async def test_an_item_with_too_many_notes_gets_its_usage_with_the_last_word(hall: Hall, fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    for first in (0, 250):
        many = [{"itemId": item, "key": f"k{n}", "role": "queue", "body": ""} for n in range(first, first + 250)]
        assert not (await fleet.call("manage_notes", {"operation": "upsert", "notes": many}))["failed"]
    await hall.run(f"echo '{json.dumps({'usage': GIVEN})}' > $FLEET_RESULT_FILE", max_items=1)
    assert (await seen(fleet, item))["role"] == "terminal"
    assert await used(fleet, item) == TOLD


async def test_a_note_of_another_attempt_is_not_written_over(fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    first, second = (RunNote(fleet, item, "run-1", run * 32, "a", Most()) for run in "12")
    total = total_of(Usage(1, 0, 2, 0.0, None, None), 1)
    await first.tell({"outcome": "running"}, total)
    await second.tell({"outcome": "done"}, total)
    await first.tell({"outcome": "done"}, {**total, "outputTokens": 5})
    again = RunNote(fleet, item, "run-1", "2" * 32, "a", Most(), new=False)
    await again.tell({"outcome": "runner died"}, {**total, "inputTokens": 4})
    found = {key: json.loads(body) for key, body in (await notes(fleet, item)).items()}
    assert {key: one["outcome"] for key, one in found.items()} == {"run-1": "done", "run-1-22222222": "runner died"}
    own = (await seen(fleet, item))["usage"]["own"]
    assert (own["inputTokens"], own["outputTokens"], own["wallMs"]) == (5, 7, 2000)


def test_what_is_known_is_told_no_more() -> None:
    total = total_of(Usage(10, 4, 5, 0.1, 1, "m\n"), 1.5)
    assert total == {
        "inputTokens": 10, "outputTokens": 5, "cachedTokens": 4, "costMicroUsd": 100_000, "wallMs": 1500, "model": "m"
    }  # fmt: skip
    assert further(total, {}) == total
    assert further(total, total) == {}
    assert further(total, {"outputTokens": 9, "inputTokens": 8, "cachedTokens": "x"}) == {
        "inputTokens": 2, "cachedTokens": 2, "costMicroUsd": 100_000, "wallMs": 1500, "model": "m"
    }  # fmt: skip


async def test_what_a_command_says_above_the_most_of_an_attempt_is_refused_and_told(hall: Hall, fleet: Fleet) -> None:
    (root,) = await add(fleet, "root", budget={"costMicroUsd": 2_000_000})
    (item,) = await add(fleet, "one", parentId=root)
    kinds = "kinds=item.usage_refused&waitMs=0"
    since = (await fleet.feed(kinds))["cursor"]
    said = {"inputTokens": 700, "outputTokens": 9_000, "costUsd": 900_000}
    command = f"echo '{json.dumps({'usage': said})}' > $FLEET_RESULT_FILE"
    before = [counts.counted(*one) for one in ((USAGE_REFUSED, "cost"), (USAGE_REFUSED, "tokens"), (COST,))]
    runner = await hall.run(command, max_items=1, usage_per_attempt=Most(1_000_000, 1_000), selection={"parent": root})
    after = [counts.counted(*one) for one in ((USAGE_REFUSED, "cost"), (USAGE_REFUSED, "tokens"), (COST,))]
    assert [now - was for now, was in zip(after, before, strict=True)] == [1, 1, pytest.approx(1.0)]
    counted = await used(fleet, item)
    assert [counted[name] for name in ("inputTokens", "outputTokens", "costMicroUsd")] == [700, 300, 1_000_000]
    assert "budgetSpent" not in await seen(fleet, root)
    assert runner.cost == 1.0
    refused = json.loads((await notes(fleet, item))["run-1"])["refused"]
    assert refused == {"outputTokens": 8_700, "costMicroUsd": 899_999_000_000}
    assert hall.told("$899,999.00 and 8,700 tokens above --usage-per-attempt are not counted")
    (event,) = (await fleet.feed(f"{kinds}&after={since}"))["events"]
    data = event["data"]
    assert (data["id"], data["key"], data["costMicroUsd"], data["tokens"]) == (item, "run-1", 899_999_000_000, 8_700)


async def test_what_was_refused_is_told_once(hall: Hall, fleet: Fleet) -> None:
    (item,) = await add(fleet, "one")
    kinds = "kinds=item.usage_refused&waitMs=0"
    since = (await fleet.feed(kinds))["cursor"]
    total = total_of(Usage(9, 0, 9, 0.0, None, None), 1)
    for new in (True, False, False):  # by the runner, and by those after it
        note = RunNote(fleet, item, "run-1", "1" * 32, "a", Most(0, 10), new=new)
        await note.tell({"outcome": "done"}, total)
        await note.tell({"outcome": "done"}, total)
        assert note.refused == {"outputTokens": 8}
    events = (await fleet.feed(f"{kinds}&after={since}"))["events"]
    assert [event["data"]["tokens"] for event in events] == [8]
    assert (await seen(fleet, item))["usage"]["own"]["tokens"] == 10


@given(
    most=st.builds(Most, st.integers(0, 20), st.integers(0, 20)),
    said=st.lists(st.tuples(*[st.integers(0, 15)] * 4), min_size=1, max_size=6),
)
def test_an_attempt_never_adds_more_than_its_most_whatever_is_said_when(
    most: Most, said: list[tuple[int, int, int, int]]
) -> None:
    known = dict.fromkeys(PARTS, 0)
    for number, (inputs, outputs, cached, cost) in enumerate(said):
        total = total_of(Usage(inputs, min(cached, inputs), outputs, cost / 1e6, 1, "m"), number)
        more = most.within(further(total, known), known)
        for name in PARTS:
            known[name] += more.get(name, 0)
        assert known["inputTokens"] + known["outputTokens"] <= most.tokens
        assert known["costMicroUsd"] == min(most.cost_micro_usd, max(one[3] for one in said[: number + 1]))
        assert known["cachedTokens"] <= known["inputTokens"]
        assert known["wallMs"] == number * 1000
        if number == 0:
            assert known["inputTokens"] + known["outputTokens"] == min(most.tokens, inputs + outputs)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", [1, 2])
async def test_the_sum_is_what_was_printed_whoever_is_killed(
    running: RunningFleet, fleet: Fleet, tmp_path: Path, seed: int
) -> None:
    count = 12 if seed == 1 else 60
    (root,) = await add(fleet, "root")
    items = await add(fleet, *(f"n{number}" for number in range(count)), parentId=root, maxAttempts=0)
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    words = ["run", "--preset", "claude", "--slots", "3", "--ttl", "10", "--until-tree", root, "--state-dir"]
    words += [str(tmp_path / "state"), "--workspace", str(tmp_path), "--min-free", "0"]
    words += ["--url", fleet.url, "--project", fleet.project, "--", str(agent)]
    with ExitStack() as held:
        kills = 0
        while True:
            runner = RunningCommand(tmp_path / f"runner-{kills}", *words)
            held.callback(runner.clean_up)
            printed = len(logs(tmp_path))
            if kills == 2 + seed:
                break
            await wait_until(partial(has_printed, tmp_path, printed + 3))
            if kills:
                (front, *_) = [one.pid for one in running.state.processes if one.pid and one.slot.startswith("fe-")]
                os.kill(front, signal.SIGKILL)
            os.kill(runner.process.pid, signal.SIGKILL)
            await wait_until(partial(ended, runner))
            kills += 1
        await wait_until(partial(ended, runner), 120)
    assert {(await seen(fleet, item))["role"] for item in items} == {"terminal"}
    total = json.loads(await asyncio.to_thread(usage_of, running, fleet.project))["total"]
    assert (total["outputTokens"], total["costMicroUsd"]) == (sum(logs(tmp_path)), 1000 * sum(logs(tmp_path)))
    assert list((tmp_path / "state" / "untold").iterdir()) == []


def has_printed(place: Path, lines: int) -> bool:
    return len(logs(place)) >= lines


def ended(runner: RunningCommand) -> bool:
    return runner.process.poll() is not None


def usage_of(running: RunningFleet, project: str) -> str:
    """What ``fleet usage --json`` prints."""
    command = [sys.executable, "-m", "coordinator", "usage", "--json", "--project", project]
    environment = {**os.environ, "FLEET_DATA_DIR": str(running.data_dir)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def logs(place: Path) -> list[int]:
    """The tokens that commands have printed, of whole lines that runners have read."""
    found = []
    for log in (place / "state" / "runs").glob("*/stdout.log"):
        found += [json.loads(line)["usage"]["output"] for line in log.read_text().splitlines() if '"result"' in line]
    return found
