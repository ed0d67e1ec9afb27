"""How soon does the console show a page and a change, and what do its tabs cost the front-end that answers agents?

In a real Chromium: the first paint of the board of a project with so many items against that of an empty one, in turn;
scrolling through its longest list; and the time from a change's commit until a page shows it, with 100 tabs open
(most of them are bare connections that read what a tab reads, ``benchmarks.tabs``). Without a browser: the share of a
core that 1,000 streams take whose pages show nothing of what changes, with and without the looks of these pages at
their counts; and ``claim_item`` over 32 connections with and without 100 tabs of a board on which other items change,
in turn, for a second each.

    python -m benchmarks console [ITEMS] [ROUNDS] [SECONDS] [STREAMS] [TABS]
    python -m benchmarks console 100000 9 10 1000
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, Request, sync_playwright

from benchmarks.load import CONNECTIONS, Server, measure
from benchmarks.support import (
    FrontEnd,
    Missing,
    add_items,
    console,
    core_kept_free,
    cpu_us,
    embedded,
    folder,
    front_end,
    in_thread,
    in_turns,
    optional,
    percentile,
    ratio,
    table,
    until,
    url_of,
)
from benchmarks.tabs import BOARD, Tabs
from coordinator.client import SyncFleet
from tests.support.browser import MISSING, chromium, installed

REAL_TABS = 3
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_SCROLL = """async (seconds) => {
  const box = document.querySelector('[data-region=queue]');
  const tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: 'longtask' });
  let frames = 0;
  for (const end = performance.now() + seconds * 1000; performance.now() < end; frames += 1) {
    box.scrollTop += 400;
    await new Promise(requestAnimationFrame);
  }
  await new Promise((done) => setTimeout(done, 100));
  return { frames, tasks, rows: document.querySelectorAll('[data-key]').length };
}"""
_WATCH = """() => {
  window.seen = {};
  new MutationObserver(() => {
    for (const found of document.body.innerText.matchAll(/change (\\d+)/g)) window.seen[found[1]] ??= Date.now();
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


@contextlib.contextmanager
def _browser(home: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = installed(playwright.chromium.executable_path)
    if found is None:
        raise Missing(MISSING)
    with chromium(home) as browser:
        yield browser


def _page(browser: Browser, front: FrontEnd, project: str) -> Page:
    page = browser.new_page()
    page.goto(f"{url_of(front.port)}/console/p/{project}/board")
    page.wait_for_selector("#live[data-state=live]")
    return page


def _until(page: Page, expression: str) -> None:
    """Waits until an expression is true; Playwright's own wait needs eval, which the console's policy forbids."""
    until(lambda: page.evaluate(expression), expression)


def _finished(page: Page) -> list[Request]:
    """The requests of a page that have ended, as they end."""
    asked = list[Request]()
    page.on("requestfinished", lambda request: asked.append(request))
    return asked


def _paints(browser: Browser, front: FrontEnd, items: int, rounds: int) -> None:
    times: dict[str, list[float]] = {"default": [], "empty": []}
    requests, size = 0, 0
    for number in range(rounds + 1):
        for project in in_turns(times, number):
            context = browser.new_context()  # an empty cache
            page = context.new_page()
            asked = _finished(page)
            page.goto(f"{url_of(front.port)}/console/p/{project}/board")
            _until(page, _PAINTED)
            if number:  # the first one warms up
                times[project].append(page.evaluate(_PAINTED))
            if project == "default":
                requests, size = len(asked), sum(one.sizes()["responseBodySize"] for one in asked)
            context.close()
    full, empty = median(times["default"]), median(times["empty"])
    table(
        f"the board of {items:,} items, median of {rounds}",
        ("figure", "measured", "goal"),
        (
            ("first paint, ms", f"{full:.0f}", f"<= {empty + 250:.0f}"),
            ("first paint of an empty board, ms", f"{empty:.0f}", ""),
            ("requests", requests, "<= 6"),
            ("compressed, KB", f"{size / 1024:.1f}", "<= 60"),
        ),
    )


def _scroll(browser: Browser, front: FrontEnd, seconds: float) -> None:
    page = _page(browser, front, "default")
    found = page.evaluate(_SCROLL, seconds)
    page.close()
    longest = max(found["tasks"], default=0)
    console.print(
        f"scrolling for {seconds:.0f} s: {found['frames'] / seconds:.0f} frames/s, {len(found['tasks'])} tasks above "
        f"50 ms (goal: 0), longest {longest:.0f} ms, {found['rows']} rows in the page\n"
    )


def _changes(browser: Browser, front: FrontEnd, seconds: float, tabs: int) -> None:
    with SyncFleet(url_of(front.port), token="", project="changes") as fleet:
        made = [{"title": f"item {number}"} for number in range(20)]
        ids = [one["id"] for one in fleet.call("manage_items", {"operation": "create", "items": made})["items"]]
        with in_thread(Tabs(front.port, "changes").open(tabs - REAL_TABS)):
            pages = [_page(browser, front, "changes") for _ in range(REAL_TABS)]
            for page in pages:
                page.evaluate(_WATCH)
            committed, delays, began = list[float](), list[float](), time.monotonic()
            while time.monotonic() < began + seconds:
                number = len(committed)
                item = {"id": ids[number % len(ids)], "title": f"change {number}"}
                committed.append(time.time() * 1000)
                fleet.call("manage_items", {"operation": "update", "items": [item]})
                time.sleep(0.7)
            last = len(committed) - 1
            for page in pages:
                _until(page, f"window.seen[{last}]")
                seen = {int(number): at for number, at in page.evaluate("window.seen").items()}
                delays += [seen[number] - at for number, at in enumerate(committed) if number in seen]
                page.close()
    console.print(
        f"from the call of a change to its sight, {tabs} tabs: median {median(delays):.0f} ms, p95 "
        f"{percentile(delays, 0.95):.0f} ms (goal < 1000), {len(delays)} of {len(committed) * REAL_TABS} were seen\n"
    )


@contextlib.contextmanager
def _changing(front: FrontEnd, items: list[str]) -> Iterator[None]:
    """Changes items ten times a second until the block ends."""
    over = threading.Event()

    def change() -> None:
        with SyncFleet(url_of(front.port), token="", project="default") as fleet:
            number = 0
            while not over.wait(0.1):
                number += 1
                item = {"id": items[number % len(items)], "title": f"title {number}"}
                fleet.call("manage_items", {"operation": "update", "items": [item]})

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _streams(front: FrontEnd, items: list[str], count: int, seconds: float) -> None:
    def share() -> float:
        with _changing(front, items):
            time.sleep(min(seconds, 1))
            began, at = cpu_us(front.pid), time.monotonic()
            time.sleep(seconds)
            return (cpu_us(front.pid) - began) / (time.monotonic() - at) / 10_000

    alone = share()
    for regions, what in (((), "frames"), (BOARD, "frames, and looks at the board")):
        tabs = Tabs(front.port, regions=regions)
        with in_thread(tabs.open(count)):
            before = tabs.frames, tabs.reads
            spent = share() - alone
            frames, reads = tabs.frames - before[0], tabs.reads - before[1]
        console.print(
            f"{count:,} streams, changes that no page shows, {what}: {spent:.1f} % of a core (goal of frames < 3), "
            f"{frames:,} frames and {reads:,} reads in {seconds:.0f} s\n"
        )


def _claims(front: FrontEnd, items: list[str], changed: list[str], rounds: int, count: int, seconds: float) -> None:
    server = Server("front-end", front.port, [front.pid])
    rates: dict[bool, list[float]] = {True: [], False: []}
    reads = 0
    measure(server, items, seconds)
    for number in range(rounds):
        for with_tabs in in_turns((False, True), number + 1):
            tabs = Tabs(front.port)
            with in_thread(tabs.open(count if with_tabs else 0)), _changing(front, changed):
                rates[with_tabs].append(measure(server, items, seconds).per_second)
            reads += tabs.reads
    less = ratio(rates[True], rates[False])
    console.print(
        f"claims/s with {count} tabs: {median(rates[True]):,.0f}, {less:.3f}x without (goal >= 0.98x), median of "
        f"{rounds} pairs; the tabs made {reads:,} reads\n"
    )


def main(items: str = "10000", rounds: str = "5", seconds: str = "8", streams: str = "1000", tabs: str = "100") -> None:
    """Runs the measurements."""
    some, long, count = int(rounds), float(seconds), int(tabs)
    with (
        core_kept_free() as give_core,
        embedded("everysec") as store,
        front_end(store.url, log_level="warning") as front,
    ):
        give_core(front.pid)
        made = add_items(front.port, int(items))
        claimed, changed = made[:CONNECTIONS], made[CONNECTIONS : 2 * CONNECTIONS]
        with optional("console, in a browser"), folder() as home, _browser(home) as browser:
            _paints(browser, front, len(made), some)
            _scroll(browser, front, long)
            _changes(browser, front, long, count)
        _streams(front, changed, int(streams), long)
        _claims(front, claimed, changed, some, count, min(long, 1))
