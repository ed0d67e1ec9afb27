"""The keyboard: keys of all pages, the palette, the help, and the switch for single letters."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from coordinator.client import SyncFleet
from tests.console.items import advance, claim, create


def focused(page: Page) -> Locator:
    return page.locator(":focus")


def test_g_leads_to_pages(console: Callable[..., Page], named: str) -> None:
    page = console("agents")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url(f"**/p/{named}/board")
    page.keyboard.press("b")  # without g it leads nowhere
    page.keyboard.press("g")
    page.keyboard.press("x")
    page.keyboard.press("a")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url(f"**/p/{named}/agents")


def test_what_is_typed_is_no_key(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "One")
    page = console("board")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("g? r/")
    expect(page.get_by_role("searchbox")).to_have_value("g? r/")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#pause")).to_have_text("pause")


def test_j_and_k_move_between_rows(console: Callable[..., Page], fleet: SyncFleet) -> None:
    first, *_ = create(fleet, "First", "Second", "Third")
    claim(fleet, first)
    page = console("board")
    page.keyboard.press("j")
    expect(focused(page)).to_have_text("First")
    page.keyboard.press("j")
    expect(focused(page)).to_have_text("Second")
    page.keyboard.press("k")
    expect(focused(page)).to_have_text("First")
    page = console("agents")
    page.keyboard.press("j")
    expect(focused(page)).to_have_text("orchestrator")
    page.keyboard.press("j")  # there is no other row
    expect(focused(page)).to_have_text("orchestrator")


def test_r_pauses(console: Callable[..., Page]) -> None:
    page = console("agents")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.keyboard.press("r")
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    page.keyboard.press("r")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def test_the_help_lists_the_keys_and_gives_the_focus_back(console: Callable[..., Page]) -> None:
    page = console("agents")
    page.keyboard.press("?")
    shown = page.get_by_role("dialog", name="Keys")
    expect(shown).to_contain_text("g b Board")
    page.keyboard.press("g")
    page.keyboard.press("b")  # not while a dialog is open
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    page.locator("#help").click()
    expect(shown).to_be_visible()
    shown.get_by_role("button", name="Close").click()
    expect(page.locator("#help")).to_be_focused()
    assert page.url.endswith("/agents")


def test_single_letters_can_be_switched_off(
    console: Callable[..., Page], fleet: SyncFleet, named: str, mishaps: list[str]
) -> None:
    create(fleet, "First", "Second")
    page = console("board")
    page.keyboard.press("?")
    page.get_by_label("Keys that are single letters").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    for key in ("?", "/", "j", "g", "a", "r"):
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("searchbox")).not_to_be_focused()
    assert page.url.endswith(f"/p/{named}/board")
    page.get_by_role("link", name="First").focus()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="First")).to_be_focused()
    page.keyboard.press("ArrowDown")  # is no letter
    expect(page.get_by_role("link", name="Second")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Find")).to_be_visible()
    page.get_by_role("searchbox", name="Find").fill("agents")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/p/{named}/agents")
    page.keyboard.press("?")
    page.locator("#help").click()
    page.get_by_label("Keys that are single letters").check()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_the_palette_finds_pages_items_and_projects(
    console: Callable[..., Page], fleet: SyncFleet, named: str, mishaps: list[str]
) -> None:
    first, second = create(fleet, "Parse <b>forms</b>", "Mend the parser")
    advance(fleet, second, "start")
    page = console("agents")
    page.keyboard.press("Control+k")
    found = page.locator("#found li")
    expect(found.filter(has_text="Board")).to_be_visible()
    page.keyboard.type("pars")
    expect(found).to_have_count(2)
    expect(found.filter(has_text="Parse <b>forms</b>")).to_contain_text("queue")
    expect(found.filter(has_text="Mend the parser")).to_contain_text("work")
    page.keyboard.press("ArrowDown")
    expect(found.nth(0).get_by_role("link")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#find")).to_be_focused()
    page.locator("#find").fill(named[:12])
    expect(found.filter(has_text=f"project {named}")).to_be_visible()
    page.locator("#find").fill("zzzz")
    expect(found).to_have_count(0)
    page.locator("#find").fill(first[:8])
    with page.expect_event("load"):
        page.keyboard.press("Enter")  # at once: the answer is waited for
    assert page.url.endswith(f"/p/{named}/item/{first}")
    mishaps.clear()


def test_finding_works_without_scripts(console: Callable[..., Page], fleet: SyncFleet) -> None:
    create(fleet, "Find me")
    page = console("find?text=find", java_script_enabled=False)
    expect(page.locator("main li")).to_have_text(["Find me queue " + page.locator("main code").inner_text()])
    page.get_by_role("searchbox").fill("nothing of that kind")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("Nothing here has such a name.")).to_be_visible()


def test_the_first_tab_stop_skips_to_the_content(console: Callable[..., Page]) -> None:
    page = console("agents")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
