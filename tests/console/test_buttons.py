"""The buttons of an item do what they say: those that are offered work, and the others are refused by the rules."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from coordinator.console.graphs.layouts import Layouts
from coordinator.console.items.actions import ACTIONS
from coordinator.console.reads import Reads
from coordinator.console.view import Visit
from coordinator.console.viewer import Viewer
from coordinator.console.views import item as item_view
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.gateway.decisions import Decisions
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.items.contract.transitions import TRIGGERS
from tests.console.site import ADA, Json, Site, person
from tests.items.client import Client, actor, fresh_id

pytestmark = pytest.mark.anyio

SETTINGS = msgspec.convert(
    {
        "request_deadline_ms": 120_000,
        "attempts": {"max": 1, "backoff_seconds": 0},
        "work_item_schemas": {
            "bug": {
                "notes": [
                    {"key": "repro", "role": "queue", "required": True},
                    {"key": "review", "role": "review", "required": False},
                ]
            },
            "default": {},
        },
    },
    Settings,
)


class Buttons(HTMLParser):
    """Reads the buttons of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "button":
            self.found.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1].setdefault("text", data)


class World:
    """Items in some state, and their buttons."""

    def __init__(self, store: Store, project: str) -> None:
        self.site = Site(store, project, SETTINGS)
        self.agent = Client(store, project, SETTINGS)
        listener = Listener(store)  # only reads, so that it never starts
        self.reads = Reads(store, self.site.toolsets, Decisions.of(store, SETTINGS, listener), None)

    async def buttons(self, item: str, viewer: Viewer = ADA) -> list[dict[str, str | None]]:
        asked = Visit(viewer, item_view.VIEW, self.site.project, item, {}, self.reads, Layouts())
        return Buttons("".join(row.html for row in ACTIONS.render(await ACTIONS.load(asked)).rows)).found

    async def press(self, button: dict[str, str | None], **more: Any) -> Json:
        """Presses a button; returns the last answer."""
        path = str(button["data-action"]).partition("/api/")[2]
        told = await self.site(path, json.loads(str(button["data-arguments"])) | more)
        if button.get("data-then"):
            second = json.loads(str(button["data-then"]))
            assert "problem" not in told
            told = await self.site(second["action"].partition("/api/")[2], second["arguments"])
        return told

    async def claim(self, item: str) -> None:
        call = {"claims": [{"itemId": item}], "actor": actor("agent-7"), "requestId": fresh_id()}
        assert (await self.agent("claim_item", **call))["summary"]["claimsSucceeded"] == 1

    # --- states ---

    async def queued(self) -> str:
        return await self.site.create()

    async def working(self) -> str:
        item = await self.site.create()
        await self.site.advance(item, "start")
        return item

    async def in_review(self) -> str:
        item = await self.site.create(type="bug", role="review")
        return item

    async def held(self) -> str:
        item = await self.site.create()
        await self.claim(item)
        return item

    async def waiting(self) -> str:
        first, item = await self.site.create(), await self.site.create()
        edge = {"fromItemId": first, "toItemId": item}
        await self.site("call/items/manage_dependencies", {"operation": "create", "dependencies": [edge]})
        return item

    async def lacking(self) -> str:
        return await self.site.create(type="bug")

    async def blocked(self) -> str:
        item = await self.site.create()
        await self.site.advance(item, "block")
        return item

    async def done(self) -> str:
        item = await self.site.create()
        await self.site.advance(item, "complete")
        return item

    async def quarantined(self) -> str:
        item = await self.site.create()
        await self.claim(item)
        moved = {"itemId": item, "trigger": "start", "actor": actor("agent-7")}
        assert (await self.agent("advance_item", transitions=[moved]))["summary"]["succeeded"] == 1
        release = {"itemId": item, "reason": "failed"}
        await self.agent("claim_item", releases=[release], actor=actor("agent-7"), requestId=fresh_id())
        return item

    async def parent(self) -> str:
        item = await self.site.create()
        await self.site.create(parentId=item)
        return item


STATES: dict[str, Callable[[World], Awaitable[str]]] = {
    name: getattr(World, name)
    for name in (
        "queued",
        "working",
        "in_review",
        "held",
        "waiting",
        "lacking",
        "blocked",
        "done",
        "quarantined",
        "parent",
    )
}
OTHERWISE = {("in_review", "complete")}
"""Of an item in review, start ends it, too."""


@pytest.fixture
def world(store: Store, project: str) -> World:
    return World(store, project)


def trigger_of(button: dict[str, str | None]) -> str:
    arguments = json.loads(button.get("data-arguments") or "{}")
    return str((arguments.get("transitions") or [{}])[0].get("trigger", ""))


@pytest.mark.parametrize("state", STATES)
async def test_exactly_the_triggers_are_offered_that_the_rules_allow(world: World, state: str) -> None:
    for trigger in TRIGGERS:
        item = await STATES[state](world)
        offered = {trigger_of(button) for button in await world.buttons(item) if "disabled" not in button}
        applied = "problem" not in await world.site.advance(item, trigger)
        assert (trigger in offered) == (applied and (state, trigger) not in OTHERWISE), trigger


@pytest.mark.parametrize("state", STATES)
async def test_every_button_that_is_offered_works(world: World, state: str) -> None:
    buttons = [one for one in await world.buttons(await STATES[state](world)) if "data-action" in one]
    assert buttons
    for place in range(len(buttons)):
        item = await STATES[state](world)
        again = [one for one in await world.buttons(item) if "data-action" in one]
        button = again[place]
        more = {"reason": "because"} if button.get("data-reason") == "reason" else {}
        assert "problem" not in await world.press(button, **more), button["text"]
        if button.get("data-undo"):
            undone = await world.site("call/items/advance_item", json.loads(str(button["data-undo"])))
            assert "problem" not in undone


async def test_a_back_off_is_ended_and_its_setting_stays(store: Store, project: str) -> None:
    world = World(store, project)
    item = await world.site.create(retryBackoffSeconds=600, maxAttempts=5)
    await world.claim(item)
    moved = {"itemId": item, "trigger": "start", "actor": actor("agent-7")}
    await world.agent("advance_item", transitions=[moved])
    release = {"itemId": item, "reason": "failed"}
    await world.agent("claim_item", releases=[release], actor=actor("agent-7"), requestId=fresh_id())
    (button,) = [one for one in await world.buttons(item) if one.get("text") == "Offer now"]
    assert "problem" not in await world.press(button)
    found = await world.agent("query_items", operation="get", id=item)
    assert found["retryBackoffSeconds"] == 600
    assert "notBefore" not in found["attempts"]


@pytest.mark.parametrize(
    "viewer", [Viewer(), person(kind="subagent"), person("ada", "*.read")], ids=["anonymous", "agent", "reader"]
)
async def test_who_may_not_change_items_gets_no_buttons(world: World, viewer: Viewer) -> None:
    assert await world.buttons(await world.queued(), viewer) == []


async def test_ending_a_claim_needs_the_permission_to_operate(world: World) -> None:
    item = await world.held()
    texts = [one.get("text") for one in await world.buttons(item, person("ada", "*"))]
    assert "Priority high" in texts
    assert "End claim" not in texts
