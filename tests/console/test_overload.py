"""Pages while agents send twice what two front-ends can serve.

The store answers after a delay, so that the limits of the front-ends decide what they serve, and not the speed of the
machine. Two processes send the calls, each as many as both front-ends serve.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Response, expect

from benchmarks.openloop import OK, REQUEST_ID, SHED, Calls, Kind, Plan, request
from coordinator.client import SyncFleet
from coordinator.store.embedded.server import EmbeddedServer
from tests.console.items import create
from tests.console.visitors import link
from tests.support.fleets import RunningFleet, environment

pytestmark = pytest.mark.chaos

DELAY_MS = 25
MOST = 8
"""Calls at a time of each front-end."""
SECONDS = 30.0
REGIONS = 8
"""More than those of a board, with the number of what waits for people."""
AGAIN_SECONDS = 5


class Slow(NamedTuple):
    """A fleet whose store answers late."""

    fleet: RunningFleet
    store_url: str
    folder: Path


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    settings = tmp_path / "fleet.yaml"
    limits = {"least_limit": MOST, "most_limit": MOST, "queue_most": 32}
    settings.write_text(json.dumps({"overload": limits}))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fleet-slow-")))  # a short path, for the socket
        server = EmbeddedServer(folder / "store")
        server.start()
        stack.callback(server.stop)
        before, _, path = server.url.rpartition("@")
        between = folder / "between.sock"
        command = [sys.executable, "-m", "benchmarks.delay", path, str(between)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        proxy = stack.enter_context(subprocess.Popen(command, env=environment(), **pipes))  # type: ignore[call-overload]
        stack.callback(proxy.terminate)
        assert proxy.stdout.readline() == b"ready\n"
        proxy.stdin.write(b"%d\n" % DELAY_MS)
        proxy.stdin.flush()
        options = ("--port", "0", "--frontends", "2", "--redis-url", f"{before}@{between}", "--config", str(settings))
        fleet = stack.enter_context(RunningFleet(tmp_path / "data", *options))
        fleet.wait_ready()
        yield Slow(fleet, server.url, tmp_path)


@contextlib.contextmanager
def sending(slow: Slow, *plans: Plan) -> Iterator[list[Calls]]:
    """Sends calls while the block runs, each plan from a process of its own; then has what became of them."""
    found = list[Calls]()
    files = [slow.folder / f"plan-{number}.json" for number in range(len(plans))]
    with contextlib.ExitStack() as stack:
        processes = []
        for file, plan in zip(files, plans, strict=True):
            file.write_bytes(msgspec.json.encode(plan))
            command = [sys.executable, "-m", "benchmarks.openloop", str(file)]
            one = stack.enter_context(subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE))
            stack.callback(one.kill)
            processes.append(one)
        for one in processes:
            assert one.stdout is not None
            assert one.stdout.readline() == b"begins\n"
        yield found
        for one in processes:
            assert one.wait(SECONDS + 60) == 0
    found += (msgspec.msgpack.decode(file.with_suffix(".measured").read_bytes(), type=Calls) for file in files)


def calls_of(port: int, items: list[str]) -> tuple[Kind, ...]:
    """Agents read, take, change and finish work."""

    def kind(name: str, weight: float, tool: str, *arguments: Mapping[str, object]) -> Kind:
        return Kind(name, weight, tuple(request(port, tool, one) for one in arguments))

    who = {"id": "agent", "kind": "subagent"}
    moves = [
        {"transitions": [{"itemId": item, "trigger": trigger, "actor": who}], "requestId": REQUEST_ID}
        for item in items
        for trigger in ("block", "resume")
    ]
    made = {"operation": "create", "items": [{"title": "More"}], "actor": who, "requestId": REQUEST_ID}
    return (
        kind("get", 4, "query_items", *({"operation": "get", "id": item} for item in items)),
        kind("create", 3, "manage_items", made),
        kind("advance", 2, "advance_item", *moves),
        kind("search", 1, "query_items", {"operation": "search", "role": "queue"}),
    )


def live(page: Page) -> None:
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def test_in_an_overload_pages_say_so_take_no_part_and_recover(slow: Slow, browser: Browser) -> None:
    url, port = slow.fleet.state.base_url, slow.fleet.port
    with SyncFleet(url, agent="orchestrator") as fleet:
        items = create(fleet, *(f"Item {n}" for n in range(40)))
    kinds = calls_of(port, items[:-1])
    with sending(slow, Plan(port, 2 * MOST, kinds, 2.0)) as closed:
        pass
    rate = closed[0].outcome.count(OK) / closed[0].seconds
    context = browser.new_context()
    errors = list[str]()
    pages = [context.new_page() for _ in range(4)]
    for page in pages:
        page.on("pageerror", lambda error: errors.append(str(error)))
    overview, board, item, system = pages
    overview.goto(url + link(slow.fleet, url=slow.store_url))
    for page, path in ((overview, "overview"), (board, "board"), (item, f"item/{items[-1]}")):
        page.goto(f"{url}/console/p/default/{path}")
        live(page)
    refused = list[str]()

    def answered(answer: Response) -> None:
        if answer.status == 503:
            refused.append(answer.url)

    board.on("response", answered)
    with sending(slow, *(Plan(port, 128, kinds, SECONDS, rate, seed=seed) for seed in (1, 2))) as sent:
        for page in (overview, board):
            expect(page.locator("#banner")).to_contain_text("s old: the fleet is overloaded")
        system.goto(f"{url}/console/system")
        fronts = system.locator("[data-region=fronts] tr")
        expect(fronts).to_have_count(2)
        for row in (0, 1):
            expect(fronts.nth(row).locator("td.number .bad").first).to_be_visible()
        expect(system.locator("[data-region=fronts]")).to_contain_text("sheddable")
        item.get_by_role("button", name="Block").click()
        expect(item.locator("#toasts")).to_contain_text("is blocked")
    for page in (overview, board, system):
        live(page)
        expect(page.locator("#banner")).to_be_hidden()
    assert len(refused) <= REGIONS * (SECONDS / AGAIN_SECONDS + 1)
    outcomes = [(calls.kind[n], outcome) for calls in sent for n, outcome in enumerate(calls.outcome)]
    served = sum(outcome == OK for _, outcome in outcomes) / SECONDS
    assert served >= 0.7 * rate
    assert any(outcome == SHED for _, outcome in outcomes)
    assert {outcome for kind, outcome in outcomes if kinds[kind].name == "advance"} == {OK}
    with SyncFleet(url, agent="orchestrator") as fleet:
        queued = fleet.call("query_items", {"operation": "search", "role": "queue", "limit": 1})["total"]
    expect(overview.locator("[data-key=queue] .figure")).to_have_text(f"{queued:,}")
    assert not errors
    context.close()
