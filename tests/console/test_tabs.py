"""How pages stay current: paused and hidden tabs, many tabs, front-ends that die, a store that is away."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from coordinator.client import SyncFleet
from coordinator.store import Store
from coordinator.store.fleet.drains import Drains, process_scope
from coordinator.store.fleet.processes import read_processes
from tests.console.items import advance, create
from tests.console.looks import live
from tests.console.visitors import of_store
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until_sync

HIDE = """
let hidden = false;
Object.defineProperty(document, 'hidden', { get: () => hidden });
window.hide = (is) => { hidden = is; document.dispatchEvent(new Event('visibilitychange')); };
"""
KILOBYTES = 60


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """A fleet that a test may break."""
    with RunningFleet(tmp_path_factory.mktemp("own") / "data", "--port", "0", "--frontends", "2") as fleet:
        fleet.wait_ready()
        yield fleet


def count(page: Page, role: str) -> Locator:
    return page.locator(f"section[aria-label='{role}'] [data-head-of]")


def keys(page: Page) -> list[str]:
    found: list[str] = page.locator("[data-key^='item:']").evaluate_all("(all) => all.map((one) => one.dataset.key)")
    return found


def test_pause_means_pause(console: Callable[..., Page], fleet: SyncFleet) -> None:
    page = console("board")
    live(page)
    page.get_by_role("button", name="pause").click()
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    create(fleet, "Meanwhile")
    other = console("board")
    expect(count(other, "queue")).to_have_text("1")
    assert asked == []
    expect(count(page, "queue")).to_have_text("0")
    page.get_by_role("button", name="resume").click()
    expect(count(page, "queue")).to_have_text("1")


def test_a_hidden_tab_ends_its_stream_and_goes_on_where_it_was(console: Callable[..., Page], fleet: SyncFleet) -> None:
    page = console("agents")
    page.clock.install()
    page.add_init_script(HIDE)
    page.goto(page.url.replace("agents", "board"))
    live(page)
    position = page.locator("main").get_attribute("data-position")
    with page.expect_event("requestfailed", lambda request: "/live?" in request.url):
        page.evaluate("hide(true)")
        page.clock.fast_forward(31_000)
    create(fleet, "Meanwhile")
    with page.expect_request(lambda request: f"/live?after={position}" in request.url):
        page.evaluate("hide(false)")
    page.clock.run_for(1_000)
    expect(count(page, "queue")).to_have_text("1")


def test_eight_tabs_of_a_browser_do_not_wait_for_each_other(
    console: Callable[..., Page], fleet: SyncFleet, watch: Callable[[Page], Page]
) -> None:
    create(fleet, "One")
    page = console("agents")
    page.context.add_init_script(HIDE)
    for _ in range(8):
        page.goto(page.url.replace("agents", "board"))
        live(page)
        page.evaluate("hide(true)")
        before, page = page, watch(page.context.new_page())
        page.goto(before.url)
    expect(count(page, "queue")).to_have_text("1")
    live(page)


def test_a_page_is_light_and_needs_few_requests(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, *(f"Item {n}" for n in range(200)))
    page = console("agents")
    asked = list[Any]()
    page.on("requestfinished", lambda request: asked.append(request))
    page.goto(page.url.replace("agents", "board"), wait_until="load")
    live(page)
    assert len(asked) <= 6, [request.url for request in asked]
    size = sum(request.sizes()["responseBodySize"] for request in asked)
    assert 5_000 < size <= KILOBYTES * 1024


def test_a_violation_of_the_policy_fails_a_test(console: Callable[..., Page], mishaps: list[str]) -> None:
    page = console("agents")
    with page.expect_console_message():
        page.evaluate("document.body.setAttribute('style', 'color: red')")
    assert any("Content Security Policy" in one for one in mishaps)
    mishaps.clear()


def test_a_page_that_is_shed_says_how_old_it_is(
    console: Callable[..., Page], fleet: SyncFleet, mishaps: list[str]
) -> None:
    page = console("board")
    live(page)
    shed, asked = [True], list[str]()

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        if shed[0]:
            route.fulfill(
                status=503, headers={"retry-after": "1"}, json={"error": {"code": "shedding", "message": "it is busy"}}
            )
        else:
            route.continue_()

    page.route(lambda url: "/~" in url, answer)
    with page.expect_response(lambda answer: answer.status == 503):
        create(fleet, "Meanwhile")
    told = page.locator("[data-live]")
    for number in range(8):  # the page asks no more often because it hears of changes
        position = told.get_attribute("data-position") or ""
        create(fleet, f"Meanwhile {number}")
        expect(told).not_to_have_attribute("data-position", position)
    expect(page.locator("#banner")).to_contain_text("s old: it is busy")
    assert max(Counter(asked).values()) <= 3
    shed[0] = False
    expect(count(page, "queue")).to_have_text("9")
    expect(page.locator("#banner")).to_be_hidden()
    mishaps.clear()


def _back(fleet: RunningFleet, slot: str, killed: int) -> None:
    wait_until_sync(lambda: fleet.pid(slot) not in (None, killed), 60, f"{slot} to be back")


def test_a_killed_front_end_costs_no_change(own: RunningFleet, browser: Browser, watch: Callable[[Page], Page]) -> None:
    page = watch(browser.new_page())
    with SyncFleet(own.state.base_url, project="harbour", agent="orchestrator") as fleet:
        ids = create(fleet, *(f"Item {n}" for n in range(10)))
        page.goto(f"{own.state.base_url}/console/p/harbour/board")
        live(page)
        for number, slot in enumerate(("fe-0", "fe-1")):
            pid = own.pid(slot)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            advance(fleet, ids[number], "start")
            create(fleet, f"After {slot}")
            expect(count(page, "work")).to_have_text(str(number + 1))
            expect(count(page, "queue")).to_have_text("10")
            _back(own, slot, pid)
        live(page)
        shown = keys(page)
        found = [one["id"] for one in fleet.call("query_items", {"operation": "search", "limit": 50})["items"]]
    assert len(shown) == len(set(shown)) == 12
    assert {key.removeprefix("item:") for key in shown} == set(found)
    page.close()


def test_a_connection_that_brings_nothing_any_more_is_not_taken_for_live(
    own: RunningFleet, browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]
) -> None:
    page = watch(browser.new_page())
    page.clock.install()
    page.goto(f"{own.state.base_url}/console/p/harbour/board")
    live(page)
    stopped = [pid for slot in ("fe-0", "fe-1") if (pid := own.pid(slot))]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)  # its connections stay open, as those of a host that has lost its network
    try:
        page.clock.fast_forward(60_000)
        expect(page.locator("#live")).to_have_attribute("data-state", "away")
        expect(page.locator("#banner")).to_contain_text("the fleet does not answer")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    live(page)
    page.close()
    mishaps.clear()


@pytest.mark.chaos
def test_tabs_of_a_drained_front_end_go_on_at_another_one(
    own: RunningFleet, browser: Browser, watch: Callable[[Page], Page]
) -> None:
    async def drain(store: Store) -> None:
        drains = Drains(store)
        ((host, _),) = (await drains.processes()).items()
        await drains.begin(process_scope(host, "fe-1"))

    async def drained(store: Store) -> bool:
        return any(one.status is not None and one.status.drained for one in (await read_processes(store)).running)

    of_store(own, drain)
    wait_until_sync(lambda: of_store(own, drained), what="fe-1 to be drained")
    contexts = [browser.new_context() for _ in range(8)]
    for context in contexts:  # of so many connections, some lead to the drained one
        page = watch(context.new_page())
        page.goto(f"{own.state.base_url}/console/p/harbour/board")
        live(page)
        with SyncFleet(own.state.base_url, project="harbour", agent="orchestrator") as fleet:
            create(fleet, "Meanwhile")
            total = fleet.call("query_items", {"operation": "search", "role": "queue", "limit": 1})["total"]
        expect(count(page, "queue")).to_have_text(str(total))
        live(page)
    for context in contexts:
        context.close()


def test_everything_is_done_by_the_keyboard(person: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "First", "Second")
    page = person("overview")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/board")
    live(page)
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    expect(page.locator(":focus")).to_have_text("Second")
    page.keyboard.press(".")
    start = page.get_by_role("dialog").get_by_role("button", name="Start")
    start.wait_for()
    for _ in range(20):
        if start.evaluate("(one) => one === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(count(page, "work")).to_have_text("1")
    page.keyboard.press("Control+k")
    page.keyboard.type("second")
    expect(page.locator("#found a", has_text="Second")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/item/*")
    expect(page.get_by_role("heading", name="Second")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_url("**/overview")
