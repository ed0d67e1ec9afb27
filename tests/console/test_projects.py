"""The list of projects, and the way from one to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet
from coordinator.console.graphs.layouts import Layouts
from coordinator.console.reads import Reads
from coordinator.console.view import Visit
from coordinator.console.viewer import Viewer
from coordinator.console.views import projects
from coordinator.store import Store
from tests.console.items import advance, claim, create
from tests.console.visitors import Visitor, of_store
from tests.support.fleets import RunningFleet


def test_a_project_is_listed_with_what_it_has(console: Callable[..., Page], fleet: SyncFleet, named: str) -> None:
    ids = create(fleet, "a", "b", "c")
    advance(fleet, ids[0], "start", "complete")
    claim(fleet, ids[1])
    page = console(f"../../projects?name={named}")
    row = page.locator(f"[data-key='project:{named}']")
    numbers = [row.locator(f"[data-label='{name}']") for name in ("items", "queue", "done", "live claims", "agents")]
    for cell, number in zip(numbers, ("3", "2", "1", "1", "1"), strict=True):
        expect(cell).to_have_text(number)
    expect(row.locator("time")).to_contain_text("ago")
    page.get_by_role("searchbox").fill("no-such-project-of-anybody")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No project here begins with")).to_be_visible()


def test_another_project_is_opened_at_the_same_page(
    console: Callable[..., Page], fleet: SyncFleet, running: RunningFleet, named: str
) -> None:
    create(fleet, "a")
    page = console("agents?list=waiting")
    page.get_by_title("Choose a project").click()
    expect(page.get_by_role("heading", name="Projects")).to_be_visible()
    page.get_by_role("searchbox").fill(named)
    page.keyboard.press("Enter")
    page.get_by_role("cell").get_by_role("link", name=named).click()
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()
    assert page.url == f"{running.state.base_url}/console/p/{named}/agents"


def names(running: RunningFleet, viewer: Viewer, listed: Sequence[str] = (), **query: str) -> list[str]:
    """The projects that a viewer gets to see."""

    async def read(store: Store) -> list[str]:
        reads = Reads(store, {}, cast(Any, None), None)
        asked = Visit(viewer, projects.VIEW, "", "", query, reads, Layouts(), (), frozenset(listed))
        return [row.key.removeprefix("project:") for row in (await projects.VIEW.regions["projects"].load(asked)).rows]

    return of_store(running, read)


def test_only_projects_that_the_viewer_may_see_are_listed(fleet: SyncFleet, running: RunningFleet, named: str) -> None:
    create(fleet, "a")
    assert named in names(running, Viewer())
    assert names(running, Viewer(projects=frozenset({"mine", "other"}))) == ["mine", "other"]
    assert names(running, Viewer(projects=frozenset({"mine", "other"})), name="o") == ["other"]
    assert names(running, Viewer(), ["mine", "yours"]) == ["mine", "yours"]
    assert names(running, Viewer(projects=frozenset({"mine", "other"})), ["mine", "yours"]) == ["mine"]
    assert names(running, Viewer(projects=frozenset({"other"})), ["mine"]) == []
    assert named in names(running, Viewer(), name=named[:14])
    assert names(running, Viewer(), name=named, offset="100") == []


def test_a_forged_project_or_view_leads_nowhere(console: Callable[..., Page], fleet: SyncFleet, named: str) -> None:
    create(fleet, "a")
    page = console(f"../../projects?name={named}&view=//evil.example&project=%22%3E%3Cscript%3E")
    link = page.get_by_role("cell").get_by_role("link", name=named)
    expect(link).to_have_attribute("href", f"/console/p/{named}/overview")
    expect(page.get_by_title("Choose a project")).to_have_text("choose a project")


def test_the_first_project_is_one_that_is_open() -> None:
    some = Viewer(projects=frozenset({"b", "a"}))
    assert Viewer().first_project(frozenset()) == "default"
    assert Viewer().first_project(frozenset({"x", "w"})) == "w"
    assert some.first_project(frozenset()) == "a"
    assert some.first_project(frozenset({"b", "c"})) == "b"


def test_the_overview_is_what_one_sees_first(running: RunningFleet) -> None:
    got = Visitor(running.port).open("/console")
    assert (got.status, got.headers["location"]) == (303, "/console/p/default/overview")
