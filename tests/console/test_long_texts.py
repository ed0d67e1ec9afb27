"""Texts of agents as long as they may be, without a place to break a line: pages stay as wide as the window."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from coordinator.client import SyncFleet
from tests.console.asking import ask_gate, ask_question
from tests.console.items import claim, create
from tests.console.looks import PHONE, USUAL
from tests.console.visitors import Visitor, link
from tests.support.fleets import RunningFleet

LONG = "<b>" + "W" * 497
SIZES = (PHONE, USUAL)
VIEWS = ("overview", "board", "board?role=work", "agents", "claims", "flows", "approvals", "find?text=WWWW", "sessions")

WIDE = """() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  const wide = (one) => one.getBoundingClientRect().left + one.scrollWidth > clientWidth + 1;
  const named = (one) => `${one.localName}.${one.getAttribute('class')}: ${one.textContent.slice(0, 40)}`;
  return scrollWidth <= clientWidth ? [] : [...document.querySelectorAll('main *')].filter(wide).map(named);
}"""
"""What makes a page wider than its window."""


def test_pages_are_no_wider_than_the_window(
    running: RunningFleet, person: Callable[..., Page], fleet: SyncFleet, named: str
) -> None:
    agent = "a" * 250
    tags = ",".join(f"{number}{'t' * 48}" for number in range(5))
    held, below = create(fleet, LONG, LONG, type="y" * 100, tags=tags, summary="s" * 1_000, description="d" * 10_000)
    edge = {"fromItemId": held, "toItemId": below}
    fleet.call("manage_dependencies", {"operation": "create", "dependencies": [edge]})
    note = {"itemId": held, "key": "k" * 200, "role": "work", "body": "n" * 10_000}
    fleet.call("manage_notes", {"operation": "upsert", "notes": [note]})
    claim(fleet, held, agent=agent)
    flow = ask_gate(fleet, "F" * 200)
    question = ask_question(fleet, LONG, "q" * 2_000)
    visitor = Visitor(running.port)
    visitor.open(link(running))
    drained = {"name": "b" * 250, "reason": "R" * 500}
    assert "problem" not in visitor.change(f"/console/p/{named}/api/operate/drain_agents", drained).text
    page = person("agents", color_scheme="dark")
    too_wide = list[str]()
    for view in (
        *VIEWS,
        f"item/{held}",
        f"item/{below}",
        f"tree/{held}",
        f"flow/{flow}",
        f"item/{question}",
        "/system",
    ):
        page.goto(f"{running.state.base_url}/console{view if view[0] == '/' else f'/p/{named}/{view}'}")
        for size in SIZES:
            page.set_viewport_size(size)
            too_wide += (f"{size['width']} {view}: {one}" for one in page.evaluate(WIDE))
    assert not too_wide
    page.goto(f"{running.state.base_url}/console/p/{named}/item/{held}")
    page.get_by_role("button", name="End claim").click()
    dialog = page.get_by_role("dialog")
    for size in SIZES:
        page.set_viewport_size(size)
        assert dialog.evaluate("(one) => one.scrollWidth <= one.clientWidth")
