"""The page of agents, and the lists of claims."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from coordinator.toolsets.items.store.agents.drains import begin_drain
from tests.console.items import claim, create
from tests.console.visitors import of_store
from tests.items.client import Client
from tests.items.moments import server_time, set_state
from tests.support.fleets import RunningFleet


@pytest.fixture
def waiting(fleet: SyncFleet) -> Iterator[Callable[[str, dict[str, object]], None]]:
    """Has an agent wait for an item, until the test ends."""
    agents: list[str] = []
    with ThreadPoolExecutor(4) as threads:

        def wait(agent: str, selector: dict[str, object]) -> None:
            agents.append(agent)
            call = {
                "actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4()), "waitMs": 60_000,
                "claims": [{"selector": {**selector, "tags": f"end,{selector.get('tags', 'end')}"}}],
            }  # fmt: skip
            threads.submit(fleet.call, "claim_item", call)

        yield wait
        create(fleet, *("last" for _ in agents), tags="end", priority="high", type="bug", complexity=1)


def test_a_claim_appears_and_goes_without_a_reload(console: Callable[..., Page], fleet: SyncFleet, named: str) -> None:
    create(fleet, "Parse <b>it</b>")
    page = console("agents")
    expect(page.get_by_text("No agent has claimed or waited here")).to_be_visible()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    claimed = fleet.call("claim_item", {"claims": [{"selector": {}}]})["claimResults"][0]
    row = page.locator("[data-key='agent:orchestrator']")
    path = f"/console/p/{named}/item/{claimed['itemId']}"
    expect(row.get_by_role("link", name="Parse <b>it</b>")).to_have_attribute("href", path)
    expect(row.locator("time[data-left]")).to_contain_text("left")
    expect(page.get_by_text("No agent has claimed or waited here")).to_be_hidden()
    expect(page.locator("[data-head-of]")).to_contain_text("1 agents, 1 live claims, 0 waiting")
    fleet.call("claim_item", {"releases": [{"itemId": claimed["itemId"], "fenceToken": claimed["fenceToken"]}]})
    expect(row).to_contain_text("idle")
    expect(page.locator("[data-head-of]")).to_contain_text("0 live claims")


def test_many_agents_are_sorted_and_paged(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    ids = create(fleet, *(f"Item {n}" for n in range(103)))
    for n, item in enumerate(ids):
        claim(fleet, item, agent=f"agent-{n:03}")

    async def first_long_ago(store: object) -> None:
        tools = Client(store, named)  # type: ignore[arg-type]
        now = await server_time(tools.store)
        await set_state(tools, ids[57], first=now - 7_200_000)

    of_store(running, first_long_ago)
    page = console("agents")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("agent-102")
    page.get_by_role("link", name="holding, longest first").click()
    expect(rows.first).to_contain_text("agent-057")
    expect(rows.first).to_contain_text("2 h 0 min ago")
    expect(page.locator(".pager")).to_contain_text("1-100 of 103")
    page.get_by_role("link", name="next").click()
    expect(rows).to_have_count(3)
    expect(page.locator(".pager")).to_contain_text("101-103 of 103")
    assert "list=holding" in page.url
    page.get_by_role("link", name="previous").click()
    page.get_by_role("searchbox").fill("T-05")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("agent-057")
    page.get_by_role("searchbox").fill("%")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No agent here has “%” in its name")).to_be_visible()


def test_what_an_agent_waits_for_is_said_in_words(
    console: Callable[..., Page], fleet: SyncFleet, waiting: Callable[[str, dict[str, object]], None], named: str,
    running: RunningFleet,
) -> None:  # fmt: skip
    asked: dict[str, object] = {"priority": "high", "type": "bug", "tags": "ui", "complexityMax": 3}
    waiting("patient", asked | {"assignee": "ann", "orderBy": "oldest"})
    page = console("agents?list=waiting")
    row = page.locator("[data-key='agent:patient']")
    said = "waits for high priority, type bug, tagged end or ui, complexity up to 3, assigned to ann, oldest first"
    expect(row).to_contain_text(said)
    of_store(running, lambda store: begin_drain(store, named, 1_000, "patient"))
    expect(page.get_by_text("No agent waits for an item now.")).to_be_visible()
    page = console("agents?agent=patient")
    expect(page.locator("[data-key='agent:patient']")).to_contain_text("drained")


def test_lists_of_claims(console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str) -> None:
    soon, silent, late = create(fleet, "Soon over", "Silent", "Late")
    claim(fleet, soon, 50, agent="a")
    claim(fleet, silent, 3600, agent="b")
    claim(fleet, late, 600, agent="c")

    async def silent_for_long(store: object) -> None:
        tools = Client(store, named)  # type: ignore[arg-type]
        at = await server_time(tools.store) - 4_000_000
        await set_state(tools, silent, first=at, claimed=at, role_changed=at, modified=at)

    of_store(running, silent_for_long)
    page = console("claims")
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody tr").first).to_contain_text("Silent")
    for name, only in (("expiring", "Soon over"), ("stalled", "Silent")):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr")).to_contain_text(only)
    page = console("claims?list=stalled&offset=300")
    page.get_by_role("link", name="Go to its beginning").click()
    expect(page.locator("tbody tr")).to_contain_text("Silent")
    page.get_by_role("link", name="abandoned").click()
    expect(page.get_by_text("No item is abandoned.")).to_be_visible()
