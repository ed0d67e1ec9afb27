"""The page of an item."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from coordinator.console.parts import plain
from tests.console.items import advance, claim, create
from tests.console.looks import live
from tests.support.fleets import RunningFleet

SCRIPT = "<script>document.title = 'taken over'</script><img src=x onerror=\"document.title = 'taken over'\">"
TURNED = "abc\u202edef\u2066\x07\U000e0041"
HOSTILE = f"""{SCRIPT} {TURNED}

<b onclick="alert(1)">bold</b> [run](javascript:alert(1)) [data](data:text/html,<script>1</script>)
[split](java\nscript:alert(1)) ![picture](https://example.com/x.png) <https://example.com/auto>
[good](https://example.com/a?b=1&c="><script>) www.example.com

{"x" * 10_000}

| {"wide" * 200} | b |
|---|---|
| 1 | 2 |
"""


def head(page: Page) -> Locator:
    return page.locator("section.item-head")


def part(page: Page, title: str) -> Locator:
    return page.locator(f"section[aria-label='{title}']")


def note(fleet: SyncFleet, item: str, key: str, body: str, role: str = "queue") -> None:
    notes = [{"itemId": item, "key": key, "role": role, "body": body}]
    assert fleet.call("manage_notes", {"operation": "upsert", "notes": notes})["upserted"] == 1


def test_it_shows_where_an_item_stands(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (root,) = create(fleet, "The shop")
    (middle,) = create(fleet, "Login", parentId=root)
    (item,) = create(fleet, "Fix it", parentId=middle, tags="api,ui", priority="high", summary="In short", type="task")
    first, after = create(fleet, "Comes first", "Comes after")
    edges = [{"fromItemId": first, "toItemId": item}, {"fromItemId": item, "toItemId": after}]
    fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges})
    create(fleet, "A part", parentId=item)
    page = live(console(f"item/{item}"))
    expect(page.get_by_role("navigation", name="Ancestors")).to_have_text("The shop / Login / this")
    expect(page.get_by_role("heading", level=1)).to_have_text("Fix it")
    for text in ("queue", "high", "api", "ui", "task", "waits for 1", "no agent has a claim"):
        expect(head(page)).to_contain_text(text)
    expect(part(page, "Dependencies").locator("li").filter(has_text="Comes first")).to_contain_text("waits for")
    expect(part(page, "Dependencies")).to_contain_text("Comes after")
    expect(page.locator(".graph .node")).to_have_count(3)
    expect(part(page, "Children")).to_contain_text("A part")
    assert page.title().startswith(f"Item {item[:8]}")
    page.get_by_role("link", name="Login").click()
    expect(part(page, "Children")).to_contain_text("Fix it")


def test_it_says_that_an_item_is_a_container(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Phase 1", container=True)
    expect(head(live(console(f"item/{item}"))).get_by_title("never offered: it is there")).to_have_text("container")


def test_texts_and_history_are_read_when_the_item_changes_only(console: Callable[..., Page], fleet: SyncFleet) -> None:
    item, other = create(fleet, "Mine", "Another")
    page = live(console(f"item/{item[:7].upper()}"))
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url.rpartition("~")[2]))
    with page.expect_response("**/~children"):
        advance(fleet, other, "start")
    expect(part(page, "History")).to_contain_text("It has always been in its role.")
    assert {"head", "links", "children"} <= set(asked)
    assert not {"texts", "history"} & set(asked)
    note(fleet, item, "report", "It is here.")
    expect(page.locator(".texts")).to_contain_text("It is here.")
    advance(fleet, item, "start")
    expect(part(page, "History").locator("li")).to_have_count(1)


def test_the_last_children_are_shown_to_who_asks_for_later_ones(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (parent,) = create(fleet, "Parent")
    create(fleet, *(f"Child {n}" for n in range(40)), parentId=parent)
    page = console(f"item/{parent}?offset=900")
    children = part(page, "Children").locator("ol")
    expect(children.locator("li")).to_have_count(30)
    expect(children).to_have_attribute("data-offset", "10")


def test_claims_and_transitions_appear(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fix it")
    page = live(console(f"item/{item[:8]}"))  # a prefix is enough
    claim(fleet, item)
    expect(head(page)).to_contain_text("claim of orchestrator")
    expect(head(page).locator("time[data-left]")).to_contain_text("left")
    advance(fleet, item, "start", summary="Off we go")
    expect(part(page, "History").locator("li").first).to_contain_text("Off we go")
    expect(head(page).locator(".role")).to_have_text("work")
    note(fleet, item, "plan", "First *this*, then that", "work")
    expect(page.locator("section.written em")).to_have_text("this")
    note(fleet, item, "plan", "Changed", "work")
    expect(page.locator("section.written")).to_contain_text("Changed")


def test_notes_stand_by_phase_with_what_gates_lack(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fix it", type="gated")
    page = live(console(f"item/{item}"))
    expect(head(page)).to_contain_text("lacks notes of phase queue: scope")
    texts = page.locator("[data-region='texts']")
    expect(texts.locator("h2")).to_have_text(
        ["Notes of queue 0 of 1 required notes", "Notes of work 0 of 1 required notes"]
    )
    expect(texts.locator("h3")).to_have_text([re.compile("^scope missing"), re.compile("^tests"), re.compile("^ideas")])
    expect(texts).to_contain_text("What is to be <b>done</b>")
    note(fleet, item, "scope", "All of it")
    expect(head(page)).to_contain_text("can move forward")
    expect(texts).to_contain_text("1 of 1 required notes")
    advance(fleet, item, "start")
    expect(head(page)).to_contain_text("lacks notes of phase work: tests")


def test_many_notes_have_pages(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fix it")
    for n in range(130):
        note(fleet, item, f"k{n:03}", "text")
    page = console(f"item/{item}")
    expect(page.locator("section.written")).to_have_count(101)
    expect(page.locator("[data-region='texts']")).to_contain_text("These are 100 of 130 notes")
    page.get_by_role("link", name="further notes").click()
    expect(page.locator("section.written").first).to_contain_text("k100")
    expect(page.locator("section.written")).to_have_count(31)
    page.get_by_role("link", name="the first notes").click()
    expect(page.locator("section.written").first).to_contain_text("k000")


def test_its_sessions_are_listed(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fix it")
    page = live(console(f"item/{item}"))
    expect(part(page, "Sessions")).to_contain_text("No session is bound to it")
    claim(fleet, item)
    actor = {"id": "orchestrator", "kind": "orchestrator"}
    given = {"workflow_id": "hotfix", "agent_id": "orchestrator", "item_id": item, "actor": actor}
    fleet.call("start_session", given, toolset="sessions")
    expect(part(page, "Sessions").get_by_role("link", name="hotfix")).to_be_visible()
    part(page, "Sessions").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Session")


def test_history_has_pages(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fix it")
    for n in range(30):
        advance(fleet, item, "hold", "resume", summary=f"round {n}")
    page = console(f"item/{item}")
    expect(part(page, "History").locator("li")).to_have_count(50)
    page.get_by_role("link", name="older").click()
    expect(part(page, "History").locator("li")).to_have_count(10)
    expect(part(page, "History").locator("li").last).to_contain_text("round 0")
    page.get_by_role("link", name="newest").click()
    expect(part(page, "History").locator("li").first).to_contain_text("round 29")


def test_a_result_in_json_is_readable(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (item,) = create(fleet, "Fix it")
    advance(fleet, item, "start")
    advance(fleet, item, "complete", result={"passed": 12, "failed": ["<i>one</i>"]})
    page = console(f"item/{item}")
    shown = page.locator("section.written").filter(has_text="result").locator("pre")
    assert json.loads(shown.inner_text()) == {"passed": 12, "failed": ["<i>one</i>"]}
    expect(shown).to_contain_text('  "passed": 12')


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_texts_stay_inert(
    console: Callable[..., Page], running: RunningFleet, named: str, fleet: SyncFleet, width: int
) -> None:
    fields: dict[str, Any] = {"description": HOSTILE, "summary": SCRIPT, "metadata": SCRIPT}
    (item, _) = create(fleet, f"{SCRIPT[:300]}{TURNED}", "👩‍💻🙂" * 100, **fields)
    create(fleet, "y" * 400, parentId=item)
    note(fleet, item, "<svg onload=alert(1)>", HOSTILE)
    with SyncFleet(running.state.base_url, project=named, agent=f"<b>{TURNED}</b>{'z' * 400}") as other:
        claim(other, item)
    advance(fleet, create(fleet, "Held")[0], "hold", summary=SCRIPT)
    page = live(console(f"item/{item}", viewport={"width": width, "height": 844}))
    expect(head(page)).to_contain_text("claim of <b>abc\\u202edef")
    expect(page.locator("h1")).to_have_text(plain(f"{SCRIPT[:300]}{TURNED}"))
    expect(page.locator("h1")).to_contain_text("\\u202edef\\u2066\\u0007\\ue0041")
    main = page.locator("main")
    assert main.locator("script, img, svg[onload], [onerror], [onclick], b, i").count() == 0
    links = main.locator(".text a")
    expect(links).to_have_count(4)  # of the description and of a note: the picture's and the good one
    for link in links.all():
        assert (link.get_attribute("href") or "").startswith("https://example.com/")
        assert link.get_attribute("rel") == "noopener noreferrer"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "taken over" not in page.title()
    page.goto(page.url.rsplit("/item/")[0] + "/board")
    expect(page.locator("li.entry")).to_have_count(4)
    assert page.locator("main").locator("script, img, b, i").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_item_that_is_deleted_stays_on_the_page(
    console: Callable[..., Page], fleet: SyncFleet, mishaps: list[str]
) -> None:
    (item,) = create(fleet, "Fix it")
    page = live(console(f"item/{item}"))
    fleet.call("manage_items", {"operation": "delete", "ids": [item]})
    expect(page.get_by_text("This is not there any more")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fix it")
    page.goto("about:blank")  # after the answers to all of its reads
    mishaps.clear()


def test_an_item_that_is_not_there_is_said(console: Callable[..., Page], mishaps: list[str]) -> None:
    page = console("item/00000000-0000-0000-0000-000000000000")
    expect(page.locator("main")).to_contain_text("no such item")
    page.goto(page.url.rsplit("/", 1)[0] + "/nonsense")
    expect(page.locator("main")).to_contain_text("must be a UUID or a hex prefix")
    mishaps.clear()
