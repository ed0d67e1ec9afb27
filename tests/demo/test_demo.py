"""``fleet demo`` as a whole: a fleet, agents over HTTP, and the audit that decides the exit code.

Beyond that audit, the recorded histories of runs with crashes and kills are proved here.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import redis

from coordinator.cli import run as fleet_main
from coordinator.cli.exits import Exit
from coordinator.client.plans.plan import read
from coordinator.demo import fleet as demo_fleet
from coordinator.demo import run as demo_run
from coordinator.demo import source, work
from coordinator.demo.agents import Agents
from coordinator.demo.board import Board, Event
from coordinator.demo.fleet import Chaos
from coordinator.demo.report import facts, latency, text
from coordinator.demo.work import Crash, Planned
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, FleetFile, Process
from coordinator.projects.transfer import withdraw
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer, find_running
from coordinator.store.link.address import parse
from coordinator.store.projects.lists import List, ProjectList, noted
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from coordinator.toolsets.items.rules.roles import ROLE_CODES
from tests.items.client import Client
from tests.support.fleets import RunningCommand, RunningFleet, fleet_command
from tests.support.history import recorded
from tests.support.proof import Facts, prove
from tests.support.wait import wait_until_sync

CHAIN = {"delta": [], "alpha": ["delta"], "beta": ["alpha"], "gamma": ["alpha", "beta"], "epsilon": []}
"""Five distributions in a chain of four, so fifteen steps."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(tmp_path_factory.mktemp("demo") / "fleet", "--port", "0", "--workers", "0") as fleet:
        fleet.wait_ready()
        yield fleet


def entangled(count: int) -> dict[str, list[str]]:
    """Distributions that each need all those before."""
    names = [f"part-{number:02d}" for number in range(count)]
    return {name: names[:at] for at, name in enumerate(names)}


def report_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return found


def demo(
    tmp_path: Path, *arguments: str, requires: dict[str, list[str]] = CHAIN, **env: str
) -> subprocess.CompletedProcess[str]:
    plan = tmp_path / "plan.yaml"
    plan.write_bytes(msgspec.json.encode(source.planned({name: name for name in requires}, requires)))
    return fleet_command("demo", "--from", str(plan), "--agents", "10", *arguments, timeout=240, **env)


async def prove_run(store: Store, redis_url: str, project: str, plan: Path, report: dict[str, Any]) -> Facts:
    """Proves the recorded history of a run. The plan is made anew, and found in the fleet by titles."""
    events, client = recorded(redis_url, project), Client(store, project)
    stored: dict[str, tuple[str, ...]] = {}
    for made in (event for event in events if event.kind == "create"):
        found = await client("query_items", operation="get", id=made.item)
        stored[made.item] = (*stored.get(made.other, ()), found["title"])
    items = {above: item for item, above in stored.items()}
    whole: dict[str, Planned] = {}
    for given in source.from_file(str(plan)).trees(report["trees"]):
        known = read(given)
        titles: dict[str, tuple[str, ...]] = {known.root.ref: (known.root.fields["title"],)}
        for node in known.root.all():
            titles |= {child.ref: (*titles[node.ref], child.fields["title"]) for child in node.children}
        whole |= work.planned(known, {ref: items[path] for ref, path in titles.items()})
    verdict = prove(whole, events, msgspec.convert(report["crashes"], list[Crash]))
    shown = verdict.facts
    assert verdict.violations == ()
    assert (shown.items_done, shown.steps_done) == (report["items_done"], report["steps_done"])
    assert (shown.claims, shown.expiries + shown.takeovers) == (report["claims"], report["expiries"])
    assert shown.seconds == report["seconds"]
    return shown


@pytest.mark.anyio
async def test_agents_drain_a_running_fleet_and_every_promise_is_kept(running: RunningFleet, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = demo(
        tmp_path, "--data-dir", str(running.data_dir), "--project", "kept", "--crash-rate", "0.25", "--ttl", "1",
        "--trees", "3", "--report", str(path),
    )  # fmt: skip
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "audit passed: all 63 items were done once" in done.stdout
    assert "45 of 45 steps in 3 trees done by 10 agents" in done.stdout
    report = report_of(path)
    assert report["ok"]
    assert report["latency"].keys() == {"claim_item"}
    redis_url = find_running(running.data_dir) or ""
    store = Store(redis_url, timeout_ms=5000)
    await store.open()
    try:
        shown = await prove_run(store, redis_url, "kept", tmp_path / "plan.yaml", report)
    finally:
        await store.close()
    assert shown.items_done == 3 * (1 + 5 + 15)
    # A quarter of at least 45 claims crash: that none did has a chance of two in a million.
    assert report["crashes"]
    assert report["expiries"] >= len(report["crashes"])
    # A second run there would find items that are not its own.
    second = demo(tmp_path, "--data-dir", str(running.data_dir), "--project", "kept")
    assert second.returncode == Exit.USAGE
    assert second.stderr.startswith("fleet: project kept has been used already")


@pytest.mark.chaos
@pytest.mark.anyio
async def test_every_promise_is_kept_while_front_ends_are_killed(
    alone: Store, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """By a fleet of the demo's own, on a given Redis."""
    path = tmp_path / "report.json"
    done = demo(
        tmp_path, "--data-dir", str(tmp_path / "none"), "--frontends", "2", "--crash-rate", "0",
        "--redis-url", own_server.url, "--project", "kept",
        # Six steps follow on each other, so the work takes three seconds at least and claims are renewed.
        "--work-ms", "1000", "--chaos", "--chaos-seconds", "2.5", "--report", str(path),
    )  # fmt: skip
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    report = report_of(path)
    assert report["kills"] >= 1
    shown = await prove_run(alone, own_server.url, "kept", tmp_path / "plan.yaml", report)
    assert shown.steps_done == 15
    assert shown.renewals >= 1


@pytest.mark.chaos
def test_it_brings_a_fleet_of_its_own_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    """To drain a graph with more edges than one call takes."""
    (tmp_path / "tmp").mkdir()
    path = tmp_path / "report.json"
    done = demo(
        tmp_path, "--data-dir", str(tmp_path / "none"), "--crash-rate", "0", "--report", str(path),
        requires=entangled(20), TMPDIR=str(tmp_path / "tmp"),
    )  # fmt: skip
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "no fleet is running here: starting one for the demo" in done.stdout
    assert MAX_EDGES < 20 * 19 / 2
    assert report_of(path)["items_done"] == 1 + 20 + 60
    assert not list((tmp_path / "tmp").iterdir()), "its data are gone"
    assert not (tmp_path / "none").exists()


@pytest.mark.anyio
async def test_a_project_of_the_runs_own_is_removed_and_a_named_one_is_not(
    store: Store, redis_url: str, project: str
) -> None:
    async with demo_run.new_project(redis_url, None) as (client, name):
        assert name.startswith("demo-")
        for what in get_args(List):
            await ProjectList(store, what).note(name)
            await ProjectList(store, what).note(project)
        # More keys than are removed at a time.
        await client.mset({keys.request.key(name, str(n)): b"x" for n in range(1200)})
        await client.xadd(keys.events.key(name), {"k": "create"})
    assert await noted(store) & {name, project} == {project}
    async with demo_run.new_project(redis_url, project) as (client, _):
        assert not [key async for key in client.scan_iter(match=keys.project_prefix(name) + b"*", count=1000)]
        await client.xadd(keys.events.key(project), {"k": "create"})
    with pytest.raises(ProcessProblem, match="has been used already"):
        async with demo_run.new_project(redis_url, project):
            pass
    assert project in await noted(store)
    await withdraw(store, project)


@pytest.mark.chaos
def test_a_history_may_be_longer_than_the_fleet_keeps(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with RunningFleet(tmp_path / "fleet", "--port", "0", "--workers", "0", FLEET_EVENTS_MAX="1000") as fleet:
        fleet.wait_ready()
        # All that is created before agents begin is already more than that.
        done = demo(tmp_path, "--data-dir", str(fleet.data_dir), "--trees", "32", "--report", str(path))
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    report = report_of(path)
    assert report["items"] == report["items_done"] == 32 * 21


@pytest.mark.anyio
async def test_what_is_stored_is_held_against_the_plan(store: Store, project: str, redis_url: str) -> None:
    await Client(store, project).add_many(2)
    target, board = demo_fleet.Target("", redis_url, None), Board({"a": Planned("a step", True, None, frozenset())})
    assert await demo_run.audited(target, project, board, (2, 0, 0)) == []
    board.apply([Event(1, "transition", "a", ROLE_CODES["terminal"])] * 2)
    again, told = await demo_run.audited(target, project, board, (2, 2, 1))
    assert again == "a step: done more than once"
    assert told == "2 items, 0 of them done, and 0 dependencies are stored; by the plan there are 2, 2 and 1"


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agents", "0"], "--agents must be from 1 to 2000, not 0"),
        (["--crash-rate", "nan"], "--crash-rate must be from 0 to 0.5, not nan"),
        (["--crash-rate", "0.6"], "--crash-rate must be from 0 to 0.5, not 0.6"),
        (["--ttl", "0"], "--ttl must be from 1 to 86400, not 0"),
        (["--work-ms", "-1"], "--work-ms must be from 0 to 60000, not -1"),
        (["--trees", "101"], "--trees must be from 1 to 100, not 101"),
        (["--chaos-seconds", "0"], "--chaos-seconds must be from 0.1 to 3600, not 0"),
        (["--url", "ftp://host"], "--url must be an http or https URL"),
        (["--url", "http://[::1"], "--url must be an http or https URL"),
        (["--project", "Not OK"], "--project: must be 1 to 63 lower-case letters"),
        (["--report", "/no/such/dir/report.json"], "--report /no/such/dir/report.json: No such file or directory"),
        (["--report", "/"], "--report /: Is a directory"),
        (["--from", "/no/such/file"], "--from /no/such/file: No such file or directory"),
        (["--from", "x" * 300], "File name too long"),
        (["--from", __file__], "is not YAML"),
        (["--url", "http://127.0.0.1:1"], "say which with --redis-url, or give its --data-dir"),
    ],
)
def test_invalid_flags_are_reported_in_one_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet_main(["demo", "--data-dir", str(tmp_path / "none"), *arguments]) == Exit.USAGE
    told = capsys.readouterr().err
    assert told.startswith("fleet: ")
    assert words in told


def test_an_unreachable_redis_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--url", "http://127.0.0.1:1", "--redis-url", "redis://:secret@127.0.0.1:1/0"]
    assert fleet_main(["demo", "--data-dir", str(tmp_path / "none"), *arguments]) == Exit.STORE_UNREACHABLE
    told = capsys.readouterr().err
    assert "no usable store at redis://:***@127.0.0.1:1/0" in told
    assert "secret" not in told


def test_an_unresponsive_fleet_is_reported_at_once(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--url", "http://someone:sesame@127.0.0.1:1", "--redis-url", redis_url]
    assert fleet_main(["demo", "--data-dir", str(tmp_path / "none"), *arguments]) == Exit.FAILED
    assert "fleet: the fleet at http://someone:***@127.0.0.1:1 does not take the work: " in capsys.readouterr().err


@pytest.mark.chaos
def test_a_fleet_that_dies_during_the_run_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "fleet"
    with RunningFleet(data, "--port", "0", "--workers", "0") as fleet:
        fleet.wait_ready()
        arguments = ("--data-dir", str(data), "--agents", "3", "--crash-rate", "0", "--work-ms", "500")
        with RunningCommand(tmp_path / "demo", "demo", *arguments) as running:
            wait_until_sync(lambda: "claimed" in running.stdout, what="agents at work")
            fleet.process.kill()
            assert running.process.wait(60) == Exit.STORE_UNREACHABLE, running.stderr
            assert running.stderr.startswith("fleet: the Redis at ")


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.chaos) for one in (signal.SIGTERM, signal.SIGHUP))],
    ids=lambda one: one.name,
)
def test_an_interrupt_leaves_nothing_behind(running: RunningFleet, tmp_path: Path, number: signal.Signals) -> None:
    arguments = ("--data-dir", str(running.data_dir), "--agents", "3", "--work-ms", "500")
    with RunningCommand(tmp_path / "demo", "demo", *arguments) as started:
        wait_until_sync(lambda: "claimed" in started.stdout, what="agents at work")
        assert started.end(number) == Exit.FAILED
        assert started.stderr == "fleet: interrupted\n"
        project = started.stdout.partition(" are in project ")[2].split()[0]
    with redis.Redis(**parse(find_running(running.data_dir) or "").client_options()) as client:
        assert not list(client.scan_iter(match=keys.project_prefix(project) + b"*", count=1000))


def test_chaos_needs_a_fleet_on_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--url", "http://127.0.0.1:1", "--redis-url", "redis://127.0.0.1:1/0", "--chaos"]
    assert fleet_main(["demo", "--data-dir", str(tmp_path / "none"), *arguments]) == Exit.USAGE
    assert "--chaos kills processes of a fleet on this machine" in capsys.readouterr().err


# --- the report -------------------------------------------------------------------------------


def report(differences: list[str] | None = None, failures: list[str] | None = None, **more: Any) -> dict[str, Any]:
    board = Board({str(n): Planned("", n < 6, None, frozenset()) for n in range(9)})
    board.apply(
        [Event(1000, "claim", "0"), *(Event(3000, "transition", str(n), ROLE_CODES["terminal"]) for n in range(9))]
    )
    agents = Agents("", "p", None)  # type: ignore[arg-type]
    agents.latencies["claim_item"] = [1.0]
    agents.unanswered.update({"connection": 3, "draining": 5})
    agents.crashes.append(Crash("a", "i", 1))
    asked = {"trees": 1, "items": 9, "size": 3, "kills": 0}
    return facts(board, agents, differences or [], failures or [], **(asked | more))


def test_a_failed_audit_fails_the_command_and_lists_what_was_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    differences = [f"i:{n}: odd" for n in range(30)]

    async def broken(*_: object) -> dict[str, Any]:
        return report(differences, ["agent-1: it ended"], items=10)

    monkeypatch.setattr("coordinator.cli.demo.run", broken)
    path = tmp_path / "report.json"
    assert fleet_main(["demo", "--data-dir", str(tmp_path), "--report", str(path)]) == Exit.FAILED
    told = capsys.readouterr().out
    assert "DIFFERENCE  i:0: odd" in told
    assert "and 10 more" in told
    assert "FAILED      agent-1: it ended" in told
    assert "audit failed: 9 of 10 items are done; 30 differences, 1 failure" in told
    assert len(report_of(path)["differences"]) == 30


def test_percentiles_are_by_nearest_rank() -> None:
    found = latency([float(n) for n in range(100, 0, -1)])
    assert found == {"calls": 100, "p50": 50.0, "p95": 95.0, "p99": 99.0, "worst": 100.0}
    assert latency([3.0])["p50"] == 3.0


def test_the_text_names_what_counts() -> None:
    shown = "\n".join(text(report(trees=2, kills=4)))
    assert "6 of 6 steps in 2 trees done by 3 agents in 2.0 s: 3 items/s" in shown
    assert "unanswered  5 draining, 3 connection" in shown
    assert "chaos       4 front-ends killed" in shown
    assert "claims      1 won, 0 renewed; 1 at a time at most" in shown
    assert "crashes     1 agent crashed over an item, 0 claims expired" in shown
    assert "audit passed: all 9 items were done once" in shown


# --- the fleet it works on --------------------------------------------------------------------


def state(*processes: Process, ready: bool = True) -> Fleet:
    return Fleet(
        pid=1, version="0", base_url="http://127.0.0.1:5", ready=ready, started_at="", metrics_dir="", store="embedded",
        store_pid=None, processes=processes,
    )  # fmt: skip


def test_chaos_kills_ready_front_ends_in_turn(tmp_path: Path) -> None:
    sleepers = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(4)]
    file = FleetFile(tmp_path)
    try:
        a, b, starting, worker = (one.pid for one in sleepers)
        file.write(
            state(
                Process("fe-0", "frontend", a, True),
                Process("fe-1", "frontend", b, True),
                Process("fe-2", "frontend", starting, False),
                Process("fe-3", "frontend", None, False),
                Process("w-0", "worker", worker, True),
            )
        )
        chaos = Chaos(tmp_path, 1.0)
        assert chaos.kill()
        assert sleepers[0].wait(60) == -signal.SIGKILL
        assert chaos.kill()
        assert sleepers[1].wait(60) == -signal.SIGKILL
        assert not chaos.kill(), "those that run already ended"
        assert [one.poll() for one in sleepers[2:]] == [None, None]
        file.write(state(Process("fe-2", "frontend", starting, False)))
        assert not chaos.kill()
    finally:
        file.close()
        for one in sleepers:
            one.kill()
            one.communicate()


def test_a_fleet_that_is_still_starting_is_not_used(tmp_path: Path) -> None:
    file = FleetFile(tmp_path)
    try:
        file.write(state(ready=False))
        with pytest.raises(ProcessProblem, match="is still starting"):
            demo_fleet.running(Settings(data_dir=str(tmp_path)), None)
    finally:
        file.close()


def test_a_remote_url_uses_the_given_redis(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), redis_url="redis://example.org/0")
    target = demo_fleet.running(settings, "http://example.org:8420/")
    assert target == ("http://example.org:8420", "redis://example.org/0", None)
    assert demo_fleet.running(Settings(data_dir=str(tmp_path)), None) is None
