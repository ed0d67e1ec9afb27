"""An open tab shows what a fresh page shows, whatever people and agents do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from coordinator.client import SyncFleet
from coordinator.console.views import VIEWS
from tests.console.asking import ask_approval, ask_checkpoint, ask_gate, ask_question
from tests.console.busy import address_of, fill_project
from tests.console.fresh import Tab
from tests.console.items import advance, claim, create
from tests.support.fleets import RunningFleet

TABS = 4
"""Of a window: a browser has six connections to a server for each, and each tab keeps one."""


ITEMS, FLOWS = ("item", "overview", "board", "tree", "claims"), ("flow", "flows", "approvals", "agents")
"""The views that the shorter run has tabs of: those that its two halves are about. Each tab reads with every change."""


class Drive:
    """A person at the page of an item, agents at work, and a tab of each view."""

    def __init__(self, fleet: SyncFleet, open_tab: Callable[[str], Tab], ids: dict[str, Any], every: bool) -> None:
        self.fleet = fleet
        self.tabs: dict[str, Tab] = {}
        self._open_tab = open_tab
        self.ids = ids
        self.item: str = ids["item"]
        self._every = every
        """Whether all tabs are compared after each change."""

    def open(self, views: Sequence[str]) -> None:
        """Opens tabs: those of some views, or all."""
        for view in VIEWS if self._every else views:
            if view not in self.tabs:
                self.tabs[view] = self._open_tab(view)

    def compare(self, change: str, *views: str) -> None:
        """Waits until tabs show what fresh pages show: those of some views, or all."""
        for view in views if views and not self._every else self.tabs:
            self.tabs[view].settle(change)

    def click(self, view: str, name: str, **given: str) -> None:
        """Does what a button of a view does; ``given``: what is filled into its form by label."""
        page = self.tabs[view].page
        page.locator("main").get_by_role("button", name=name, exact=True).first.click()
        if given or page.get_by_role("dialog").count():
            asks = page.get_by_role("dialog").last
            for label, text in given.items():
                asks.get_by_label(label.replace("_", " ")).first.fill(text)
            asks.locator("button[type=submit]").click()
            expect(page.get_by_role("dialog")).to_have_count(0)
        page.mouse.move(0, 0)
        page.evaluate("document.activeElement.blur()")

    def person(self, name: str, **given: str) -> None:
        """A person acts on the page of the item."""
        self.click("item", name, **given)
        self.compare(f"a person: {name}", "item")

    def agent(self, tool: str, **arguments: Any) -> Any:
        """An agent changes something."""
        told = self.fleet.call(tool, arguments)
        self.compare(f"an agent: {tool} {arguments}", "item")
        return told

    def moves(self, *triggers: str) -> None:
        """An agent moves the item on."""
        for trigger in triggers:
            advance(self.fleet, self.item, trigger)
            self.compare(f"an agent: {trigger}", "item")

    def claims(self, **release: Any) -> None:
        """An agent claims the item, or gives it back."""
        given = {"releases": [{"itemId": self.item, **release}]} if release else {"claims": [{"itemId": self.item}]}
        self.agent("claim_item", **given)


@pytest.fixture
def drive(
    running: RunningFleet, named: str, fleet: SyncFleet, browser: Browser, console: Callable[..., Page],
    watch: Callable[[Page], Page], request: pytest.FixtureRequest,
) -> Iterator[Drive]:  # fmt: skip
    ids = fill_project(running.state.base_url, named, soon_seconds=900)
    (ids["item"],) = create(fleet, "Parse", priority="medium")
    contexts = [console("overview", "ada").context]

    def open_tab(view: str) -> Tab:
        if len(contexts) == 1 or len(contexts[-1].pages) == TABS:
            contexts.append(browser.new_context(storage_state=contexts[0].storage_state()))
        page = watch(contexts[-1].new_page())
        page.goto(running.state.base_url + address_of(VIEWS[view], named, ids))
        return Tab(page, running.port)

    yield Drive(fleet, open_tab, ids, request.param)
    for context in contexts[1:]:
        context.close()


@pytest.mark.parametrize("drive", [False, pytest.param(True, marks=pytest.mark.chaos)], indirect=True)
def test_a_tab_shows_what_a_fresh_page_shows(drive: Drive) -> None:
    fleet, item = drive.fleet, drive.item
    drive.open(ITEMS)
    drive.person("Priority high")
    drive.person("Start")
    drive.person("Block")
    drive.person("Resume")
    drive.person("Edit", Title="Parse it", Tags="api")
    drive.person("Set budget", Tokens="5000")
    drive.person("Raise budget", Tokens="6000")
    drive.person("Add note", Key="plan", Text="First **this**")
    drive.person("Add dependency", It_waits_for=drive.ids["tree"])
    drive.person("Remove")
    drive.person("Remove budget")
    drive.person("Cancel item", Reason="not now")
    drive.person("Reopen")
    drive.claims()
    drive.moves("start")
    note = {"itemId": item, "key": "found", "role": "work", "body": "x"}
    drive.agent("manage_notes", operation="upsert", notes=[note])
    drive.person("End claim", Reason="it hangs")
    drive.claims()
    drive.claims(reason="failed")
    drive.person("Offer now")
    drive.compare("work on an item", "item", "overview", "board", "tree", "claims")
    drive.moves("complete", "reopen", "hold", "resume", "block", "resume", "cancel", "reopen")
    drive.person("New item below", Title="A part")
    (part,) = create(fleet, "Another part", parentId=item)
    drive.agent("manage_items", operation="delete", ids=[part])
    drive.person("Complete tree")

    drive.open(FLOWS)
    drive.click("flow", "Pause workflow", Reason="wait")
    drive.compare("a person has paused a flow", "flow", "flows")
    drive.click("flow", "Resume workflow", Reason="go on")
    drive.click("flow", "Release")
    drive.compare("a person has released a gate", "flow", "flows", "approvals")
    drive.click("flow", "Cancel workflow")
    drive.compare("a person has cancelled a flow", "flow", "flows")
    drive.click("flow", "Retry workflow", Reason="again")
    drive.compare("a person has retried a flow", "flow", "flows")
    ask_gate(fleet)
    ask_question(fleet, "Choose a size")
    ask_checkpoint(fleet)
    ask_approval(fleet, "1.3.0")
    claim(fleet, create(fleet, "Held")[0], agent="late")
    drive.click("agents", "Drain", Reason="too slow")
    drive.compare("a person has drained an agent", "agents")
    drive.click("agents", "End drain", Reason="fast again")
    drive.compare("everything")
