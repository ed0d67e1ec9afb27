"""The dependency graph of a tree, and the neighbourhood of an item; looking around in graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from tests.console.items import create


def chain(fleet: SyncFleet, *items: str) -> None:
    """Each item blocks the next one."""
    edges = [{"fromItemId": one, "toItemId": other, "type": "BLOCKS"} for one, other in pairwise(items)]
    fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges})


def end(fleet: SyncFleet, *items: str) -> None:
    for item in items:
        fleet.call("advance_item", {"transitions": [{"itemId": item, "trigger": "cancel"}]})


def node(page: Page, item: str) -> Any:
    return page.locator(f".node[data-key='item:{item}']")


def entry(page: Page, item: str) -> Any:
    return page.locator(f"[role=tree] [data-key='item:{item}'] a")


@pytest.fixture
def planted(fleet: SyncFleet) -> dict[str, str]:
    """A tree: a, b and c wait for each other, d is alone."""
    (root,) = create(fleet, "Release <i>12</i>")
    a, b, c, d = create(fleet, "a", "b", "c", "d", parentId=root)
    chain(fleet, a, b, c)
    return {"root": root, "a": a, "b": b, "c": c, "d": d}


def test_states_change_and_nothing_moves(
    console: Callable[..., Page], fleet: SyncFleet, planted: dict[str, str]
) -> None:
    page = console(f"tree/{planted['root']}")
    expect(page.locator(".node")).to_have_count(3)
    expect(page.locator(".edges.strong path")).to_have_count(2)
    expect(page.get_by_text("critical path: 3 items")).to_be_visible()
    expect(node(page, planted["a"])).to_contain_text("ready, step 1 of 3")
    expect(node(page, planted["b"])).to_contain_text("waits for 1, step 2 of 3")
    before = [node(page, planted[name]).get_attribute("transform") for name in "abc"]
    fleet.call("claim_item", {"claims": [{"itemId": planted["a"]}]})
    expect(node(page, planted["a"])).to_contain_text("queue: orchestrator")
    expect(entry(page, planted["a"])).to_contain_text("queue: orchestrator")
    end(fleet, planted["a"])
    expect(node(page, planted["a"])).to_contain_text("done")
    expect(node(page, planted["b"])).to_contain_text("ready, step 1 of 2")
    expect(page.locator(".edges.strong path")).to_have_count(1)
    assert [node(page, planted[name]).get_attribute("transform") for name in "abc"] == before


def test_a_new_dependency_is_drawn(console: Callable[..., Page], fleet: SyncFleet, planted: dict[str, str]) -> None:
    page = console(f"tree/{planted['root']}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    wide = float(page.locator(".drawing").get_attribute("viewBox").split()[2])  # type: ignore[union-attr]
    chain(fleet, planted["c"], planted["d"])
    expect(node(page, planted["d"])).to_be_attached()
    expect(page.locator(".edges.strong path")).to_have_count(3)
    assert float(page.locator(".drawing").get_attribute("viewBox").split()[2]) > wide  # type: ignore[union-attr]
    expect(page.locator("#polite")).to_have_text("The graph has changed.")


def test_the_critical_path_by_complexity(
    console: Callable[..., Page], fleet: SyncFleet, planted: dict[str, str]
) -> None:
    heavy = create(fleet, "x", "y", parentId=planted["root"], complexity=10)
    chain(fleet, *heavy)
    page = console(f"tree/{planted['root']}")
    expect(entry(page, planted["b"])).to_contain_text("critical path, step 2 of 3")
    page.get_by_role("link", name="by complexity").click()
    expect(entry(page, heavy[1])).to_contain_text("critical path, step 2 of 2")
    assert page.url.endswith("?by=complexity")


def test_the_list_is_walked_by_keys_and_the_graph_follows(
    console: Callable[..., Page], planted: dict[str, str]
) -> None:
    page = console(f"tree/{planted['root']}")
    expect(page.locator("[role=treeitem][tabindex='0']")).to_have_count(1)
    entry(page, planted["root"]).focus()
    page.keyboard.press("ArrowRight")
    expect(entry(page, planted["a"])).to_be_focused()
    expect(node(page, planted["a"])).to_have_class("node queue strong first ready at")
    page.keyboard.press("ArrowDown")
    expect(entry(page, planted["b"])).to_be_focused()
    expect(entry(page, planted["b"])).to_have_attribute("aria-level", "2")
    expect(entry(page, planted["b"])).to_have_attribute("aria-posinset", "2")
    expect(entry(page, planted["b"])).to_have_attribute("aria-setsize", "4")
    page.keyboard.press("End")
    expect(entry(page, planted["d"])).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(entry(page, planted["root"])).to_be_focused()
    expect(page.locator("[role=treeitem][tabindex='0']")).to_have_count(1)


def test_a_graph_is_looked_around_in(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (root,) = create(fleet, "long")
    items = create(fleet, *(f"step {number}" for number in range(40)), parentId=root)
    chain(fleet, *items)
    page = console(f"tree/{root}")
    pane: Any = page.locator(".pane")

    def width() -> float:
        return float(page.locator(".drawing").get_attribute("width") or 0)

    fitting = width()
    assert fitting > 40 * 196 * 0.8  # not made too small to be read
    assert node(page, items[0]).bounding_box()["x"] > 0
    pane.focus()
    page.keyboard.press("-")
    assert width() < fitting
    page.keyboard.press("0")
    assert width() == fitting
    page.get_by_role("button", name="Larger").click()
    assert width() > fitting
    pane.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, 300)
    page.keyboard.up("Control")
    page.wait_for_function(f"Number(document.querySelector('.drawing').getAttribute('width')) < {fitting}")
    left = pane.evaluate("pane => pane.scrollLeft")
    page.mouse.down()
    page.mouse.move(300, 300, steps=4)
    page.mouse.up()
    assert pane.evaluate("pane => pane.scrollLeft") != left
    expect(page.locator("main[data-view=tree]")).to_be_visible()  # a drag clicks nothing
    entry(page, items[39]).focus()
    last, around = node(page, items[39]).bounding_box(), pane.bounding_box()
    assert around["x"] <= last["x"]
    assert last["x"] + last["width"] <= around["x"] + around["width"]


def test_a_page_is_whole_without_scripts(console: Callable[..., Page], planted: dict[str, str]) -> None:
    page = console(f"tree/{planted['root']}", java_script_enabled=False)
    expect(page.locator(".node")).to_have_count(3)
    expect(page.locator("[role=treeitem]")).to_have_count(5)
    assert page.locator(".drawing").get_attribute("viewBox") != "0 0 1 1"
    entry(page, planted["c"]).click()
    expect(page.get_by_role("heading", name="c", exact=True)).to_be_visible()


def test_two_fingers_zoom(console: Callable[..., Page], planted: dict[str, str]) -> None:
    page = console(f"tree/{planted['root']}", has_touch=True, viewport={"width": 390, "height": 844})
    fitting = float(page.locator(".drawing").get_attribute("width") or 0)
    box: Any = page.locator(".pane").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *apart: int) -> None:
        points = [{"x": x + side * distance, "y": y, "id": side + 1} for distance in apart for side in (-1, 1)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 30)
    touch("touchMove", 60)
    touch("touchEnd")
    page.wait_for_function(f"Number(document.querySelector('.drawing').getAttribute('width')) > {1.5 * fitting}")


def test_what_has_ended_is_left_out_of_large_trees(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (root,) = create(fleet, "large")
    (done,) = create(fleet, "ended part", parentId=root)
    ended = create(fleet, *(f"old {number}" for number in range(200)), parentId=done)
    for start in range(0, 200, 50):
        moves = [{"itemId": item, "trigger": "cancel"} for item in ended[start : start + 50]]
        fleet.call("advance_item", {"transitions": moves})
    end(fleet, done)
    create(fleet, *(f"new {number}" for number in range(150)), parentId=root)
    page = console(f"tree/{root}")
    expect(page.get_by_text("352 items")).to_be_visible()
    expect(page.locator("[role=treeitem]")).to_have_count(151)
    expect(page.get_by_text("201 ended items are not shown")).to_be_visible()


def test_a_tree_that_is_too_large_asks_to_be_narrowed(console: Callable[..., Page], fleet: SyncFleet) -> None:
    (root,) = create(fleet, "huge")
    parts = create(fleet, *(f"part {number}" for number in range(120)), parentId=root)
    for part in parts[:50]:
        create(fleet, *(f"{number}" for number in range(100)), parentId=part)
    page = console(f"tree/{root}")
    expect(page.get_by_text("This tree has 5,121 items. A graph shows up to 300 that have not ended")).to_be_visible()
    expect(page.get_by_text("first 100 of 120 parts")).to_be_visible()
    expect(page.locator(".pane")).to_be_hidden()
    page.get_by_role("link", name="next").click()
    expect(page.locator("[role=treeitem]")).to_have_count(20)
    page.goto(page.url.replace("offset=100", "offset=900"))
    expect(page.get_by_text("from 21: 100 of 120 parts")).to_be_visible()
    page.go_back()
    page.go_back()
    page.locator("[role=treeitem]", has_text="100 children").first.click()
    expect(page.locator("[role=treeitem]")).to_have_count(101)
    page.get_by_role("link", name="graph of its parent").click()
    expect(page.get_by_text("first 100 of 120 parts")).to_be_visible()


def test_an_item_shows_its_neighbours(console: Callable[..., Page], fleet: SyncFleet, planted: dict[str, str]) -> None:
    page = console(f"item/{planted['b']}")
    expect(page.locator(".node")).to_have_count(3)
    expect(node(page, planted["b"])).to_have_class("node queue here first")
    end(fleet, planted["a"])
    expect(node(page, planted["a"])).to_contain_text("done")
    expect(node(page, planted["b"])).to_contain_text("ready")
    page.get_by_role("link", name="of its parent").click()
    expect(page.locator("h2").first).to_contain_text("Release <i>12</i>")
    page = console(f"item/{planted['d']}")
    expect(page.locator(".pane")).to_be_hidden()
    page.get_by_role("link", name="Graph of what is below it").click()
    expect(page.get_by_text("No item of this tree waits for another one of it.")).to_be_visible()


def test_an_id_that_is_none_is_refused(console: Callable[..., Page], mishaps: list[str]) -> None:
    for wrong in ("x", "00000000-0000-4000-8000-000000000000", "%F0%9F%98%80"):
        page = console(f"tree/{wrong}")
        expect(page.locator("main.problem")).to_be_visible()
    mishaps.clear()
