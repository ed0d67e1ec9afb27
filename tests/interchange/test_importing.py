"""Imports into a real store: twice, shuffled, cut off, two at once, with changes on both sides."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from coordinator.interchange.exporting import read_project
from coordinator.interchange.formats import beads, markdown, taskmaster
from coordinator.interchange.identity import HOLD
from coordinator.interchange.model import ImportSource, SourceRecord
from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from tests.interchange.direct import Direct, Killed, imported
from tests.items.selectors import take as claim

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("several_projects")]


def issue(number: int, **fields: Any) -> dict[str, Any]:
    blockers = fields.pop("blockers", [])
    edges = [{"depends_on_id": f"a-{one}", "type": "blocks"} for one in blockers]
    if "parent" in fields:
        edges.append({"depends_on_id": f"a-{fields.pop('parent')}", "type": "parent-child"})
    return {"id": f"a-{number}", "title": f"Issue {number}", "status": "open", "dependencies": edges, **fields}


def a_project(count: int = 40) -> list[dict[str, Any]]:
    """Issues with children, blockers, comments, ends."""
    found = []
    for n in range(count):
        more: dict[str, Any] = {"parent": n - n % 8} if n % 8 else {}
        more["blockers"] = [n - 1] if n % 8 > 2 else []
        if n % 5 == 0:
            more["comments"] = [{"author": "ann", "text": f"about {n}"}]
        more["status"] = ("open", "closed", "blocked", "in_progress")[n % 4]
        found.append(issue(n, labels=["api"], description="text " * n, **more))
    return found


def lines(issues: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, issues)).encode()


async def take(direct: Direct, issues: list[dict[str, Any]], **options: Any) -> Any:
    return await imported(direct, beads.read(lines(issues)), beads.STATES, "beads", **options)


async def state(direct: Direct) -> list[Any]:
    """All that matters of the project."""
    found = await read_project(direct.fleet, "beads")
    rows = [
        (
            *(one.id, one.title, one.description, one.status, one.state, one.priority, sorted(one.tags), one.parent),
            *(sorted(one.blockers), one.notes),
        )
        for one in found
    ]
    return sorted(rows)


async def test_a_second_import_changes_nothing(store: Store, project: str) -> None:
    direct = Direct(store, project)
    issues = a_project()
    first = await take(direct, issues)
    assert (first.created, first.refused) == (40, [])
    before = await state(direct)
    random.Random(1).shuffle(issues)
    second = await take(direct, issues)
    assert (second.created, second.updated, second.unchanged) == (0, 0, 40)
    assert await state(direct) == before
    assert not (await audit(store, project)).differences
    offered = await direct.tools.next(limit=20)
    assert await direct.tools.next(limit=20, capabilities=[HOLD]) == offered, "some items are still held back"


async def test_a_shuffled_file_gives_the_same_items(store: Store, project: str) -> None:
    direct, other = Direct(store, project), Direct(store, f"{project}-2")
    issues = a_project()
    await take(direct, issues)
    random.Random(2).shuffle(issues)
    await take(other, issues)
    assert await state(direct) == await state(other)


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4, 5])
async def test_an_import_that_was_cut_off_is_completed_by_the_next(store: Store, project: str, calls: int) -> None:
    issues = a_project()
    with pytest.raises((Killed, BaseExceptionGroup)):
        await take(Direct(store, project, fails_after=calls), issues)
    direct = Direct(store, project)
    for waiting in await direct.tools.next(limit=20):
        blockers = (await direct.tools("query_dependencies", itemId=waiting, direction="incoming"))["dependencies"]
        assert not blockers, "an item was offered before its blockers were known"
    report = await take(direct, issues)
    assert not report.refused
    whole = Direct(store, f"{project}-2")
    await take(whole, issues)
    assert await state(direct) == await state(whole)
    assert not (await audit(store, project)).differences


async def test_two_imports_at_once_make_no_item_twice(store: Store, project: str) -> None:
    issues = a_project()
    directs = [Direct(store, project) for _ in range(3)]
    reports = await asyncio.gather(*(take(one, issues) for one in directs))
    assert sorted(one.created for one in reports) == [0, 0, 40]
    found = await read_project(directs[0].fleet, "beads")
    assert sorted(one.id for one in found) == sorted(one["id"] for one in issues)
    markers = await directs[0].tools("query_items", operation="search", tags="import-marker")
    assert markers["total"] == 1


async def test_only_what_changed_at_the_source_is_updated(store: Store, project: str) -> None:
    direct = Direct(store, project)
    issues = [issue(n, labels=["old"], priority=2) for n in range(4)]
    await take(direct, issues)
    ids = {one.id: one.url for one in await read_project(direct.fleet, "beads")}
    await direct.tools.update(ids["a-0"], title="changed here", tags="mine,old", priority="high")
    await direct.tools.link(ids["a-1"], ids["a-0"])
    await direct.tools.move(ids["a-2"], "start")
    issues[0] |= {
        "labels": ["new"],
        "description": "changed there",
        "dependencies": issue(0, blockers=[3])["dependencies"],
    }
    issues[1] |= {"status": "closed"}
    issues[2] |= {"title": "changed there"}
    report = await take(direct, issues)
    assert (report.updated, report.unchanged, report.refused) == (3, 1, [])
    rows = {row[0]: row for row in await state(direct)}
    title, description, priority, tags, blockers = (rows["a-0"][n] for n in (1, 2, 5, 6, 8))
    assert (title, description, priority) == ("changed here", "changed there", "high")
    assert (tags, blockers) == (["mine", "new"], ["a-1", "a-3"])
    assert rows["a-1"][3:5] == ("terminal", "done")
    assert rows["a-2"][1:4:2] == ("changed there", "work"), "work here goes on"
    issues[0]["dependencies"] = []
    issues[1]["status"] = "open"
    await take(direct, issues)
    rows = {row[0]: row for row in await state(direct)}
    assert rows["a-0"][8] == ["a-1"], "a dependency that was made here is gone, or one that the source dropped is not"
    assert rows["a-1"][3] == "queue"


async def test_held_items_are_left_and_vanished_ones_are_told(store: Store, project: str) -> None:
    direct = Direct(store, project)
    issues = [issue(n) for n in range(3)]
    await take(direct, issues)
    ids = {one.id: one.url for one in await read_project(direct.fleet, "beads")}
    await direct.tools.claim("worker", ids["a-0"])
    issues[0]["title"] = "changed there"
    report = await take(direct, issues[:1])
    assert (report.claimed, sorted(report.vanished), report.closed) == (["a-0"], ["a-1", "a-2"], 0)
    await direct.tools.release("worker", ids["a-0"])
    report = await take(direct, issues[:1], close_missing=True)
    assert (report.updated, report.closed) == (1, 2)
    rows = {row[0]: row for row in await state(direct)}
    assert rows["a-0"][1] == "changed there"
    assert {rows[one][4] for one in ("a-1", "a-2")} == {"cancelled"}


async def test_a_dry_run_changes_nothing(store: Store, project: str) -> None:
    direct = Direct(store, project)
    report = await take(direct, a_project(), dry_run=True)
    assert report.created == 40
    assert (await direct.tools("query_items", operation="search"))["total"] == 0
    await take(direct, a_project())
    changed = a_project()
    changed[3]["title"] = "other"
    before = await state(direct)
    report = await take(direct, changed, dry_run=True)
    assert (report.created, report.updated, report.unchanged) == (0, 1, 39)
    assert await state(direct) == before


async def test_a_dry_run_says_what_the_run_does(store: Store, project: str) -> None:
    direct = Direct(store, project)
    first = a_project()
    await take(direct, first[:30])
    ids = {one.id: one.url for one in await read_project(direct.fleet, "beads")}
    for held in ("a-0", "a-16"):
        await direct.tools.claim(f"holds {held}", ids[held])
    with pytest.raises((Killed, BaseExceptionGroup)):
        await take(Direct(store, project, fails_after=2), first[:34])
    second = [one for one in first[:38] if one["id"] not in ("a-8", "a-16")]
    for number, change in ((0, {"title": "held"}), (2, {"title": "new"}), (3, {"status": "open"})):
        second[number] |= change
    second[4]["dependencies"].append({"depends_on_id": "a-1", "type": "blocks"})
    for closes in (False, True):
        dry = await take(direct, second, dry_run=True, close_missing=closes)
        before = await state(direct)
        assert await take(direct, second, dry_run=True, close_missing=closes) == dry
        assert await state(direct) == before
        run = await take(direct, second, close_missing=closes)
        assert run == dry
        assert (bool(run.created), bool(run.dependencies), run.closed) == (not closes, not closes, int(closes))
        assert run.claimed == ["a-0", "a-16"][: 1 + closes]


async def test_exported_items_come_back_as_themselves(store: Store, project: str) -> None:
    """Also in another format than the one that they came in."""
    direct = Direct(store, project)
    await take(direct, a_project())
    new = await direct.tools.add("made here")
    records = await read_project(direct.fleet, "markdown")
    text = "\n".join(markdown.write(records)).replace("made here", "renamed there")
    report = await imported(direct, markdown.read(text.encode()), markdown.STATES, "markdown")
    assert (report.created, report.refused) == (0, [])
    assert (await direct.tools.get(new))["title"] == "renamed there"
    again = await take(direct, a_project())
    assert (again.created, again.unchanged) == (0, 40), "the first source has lost its items"
    report = await imported(direct, markdown.read(text.encode()), markdown.STATES, "markdown")
    assert (report.created, report.updated) == (0, 0)


async def test_refusals_are_told_and_the_rest_is_imported(store: Store, project: str) -> None:
    direct = Direct(store, project)
    await take(direct, [issue(0), issue(1)])
    ids = {one.id: one.url for one in await read_project(direct.fleet, "beads")}
    await direct.tools.link(ids["a-0"], ids["a-1"])
    report = await take(direct, [issue(0, blockers=[1]), issue(1), issue(2, blockers=[1])])
    assert report.created == 1
    assert len(report.refused) == 1
    assert "cycle" in report.refused[0]
    rows = {row[0]: row for row in await state(direct)}
    assert rows["a-2"][8] == ["a-1"]


async def test_a_note_that_is_refused_is_named_with_its_item(store: Store, project: str) -> None:
    direct = Direct(store, project)
    record = SourceRecord("n", "Noted", notes={"": "no key"})
    report = await imported(direct, ImportSource(records=[record]), {"": "queue"})
    assert len(report.refused) == 1
    assert report.refused[0].startswith("Noted (n): note '': ")


ROADMAP = b"# Roadmap\n\n## Phase 1\n- [ ] Task A\n- [ ] Task B\n"
_TASKS = [{"id": 1, "title": "Task A", "subtasks": []}, {"id": 2, "title": "Task B"}]
STRUCTURED = [
    pytest.param(markdown, ROADMAP, {"Roadmap", "Phase 1"}, id="markdown"),
    pytest.param(taskmaster, json.dumps({"master": {"tasks": _TASKS}}).encode(), {"master"}, id="taskmaster"),
]


async def containers(direct: Direct) -> dict[str, str]:
    """Roles of containers by title."""
    found = (await direct.tools("query_items", operation="search", includeDetails=True, limit=200))["items"]
    marker = "import-marker"
    return {one["title"]: one["role"] for one in found if one.get("container") and marker not in one["tags"]}


@pytest.mark.parametrize(("module", "data", "made"), STRUCTURED)
async def test_all_agents_get_tasks_and_nobody_what_the_import_made(
    store: Store, project: str, module: Any, data: bytes, made: set[str]
) -> None:
    direct = Direct(store, project)
    await imported(direct, module.read(data), module.STATES)
    assert await containers(direct) == dict.fromkeys(made, "queue")
    tools, taken = direct.tools, []
    for n, agent in enumerate(("ann", "bob", "cyd")):
        for selector in ({}, {"parents": "any"}, {"role": "work", "parents": "any"})[n == 0 :]:
            got = await claim(tools, agent, selector)
            assert (got["outcome"] == "success") == (n < 2 and "role" not in selector)
            if got["outcome"] == "success":
                taken.append((await tools.get(got["itemId"]))["title"])
                await tools.advance(got["itemId"], "start", agent)
                break
    assert taken == ["Task A", "Task B"]
    assert (await direct.tools.next(limit=20)) == []
    assert not (await audit(store, project)).differences


@pytest.mark.parametrize(("module", "data", "made"), STRUCTURED)
async def test_what_an_import_made_ends_with_its_tasks(
    store: Store, project: str, module: Any, data: bytes, made: set[str]
) -> None:
    direct = Direct(store, project)
    await imported(direct, module.read(data), module.STATES)
    for item in await direct.tools.next(limit=20):
        await direct.tools.advance(item, "complete")
    assert await containers(direct) == dict.fromkeys(made, "terminal")


@pytest.mark.parametrize(("module", "data", "made"), STRUCTURED)
async def test_an_import_by_a_build_without_containers_is_brought_up_to_date(
    store: Store, project: str, module: Any, data: bytes, made: set[str]
) -> None:
    direct, older = Direct(store, project), module.read(data)
    for one in older.records:
        one.container = False
    assert (await imported(direct, older, module.STATES)).created == len(made) + 2
    assert await containers(direct) == {}
    report = await imported(direct, module.read(data), module.STATES)
    assert (report.updated, report.unchanged, report.refused) == (len(made), 2, [])
    assert await containers(direct) == dict.fromkeys(made, "queue")
    assert (await imported(direct, module.read(data), module.STATES)).updated == 0
    assert not (await audit(store, project)).differences


@pytest.mark.parametrize(("module", "data", "made"), STRUCTURED)
async def test_what_is_exported_as_markdown_comes_back_with_its_containers(
    store: Store, project: str, module: Any, data: bytes, made: set[str]
) -> None:
    direct = Direct(store, project)
    await imported(direct, module.read(data), module.STATES, module.__name__.rpartition(".")[2])
    await direct.tools.add("alone")
    for ended in (False, True):
        text = "\n".join(markdown.write(await read_project(direct.fleet, "markdown"))).encode()
        report = await imported(direct, markdown.read(text), markdown.STATES, "markdown")
        assert (report.created, report.refused) == (0, [])
        assert set(await containers(direct)) == made
        assert report.updated == 0 or not ended
    assert not (await audit(store, project)).differences


async def test_the_marker_of_a_source_is_never_offered(store: Store, project: str) -> None:
    direct = Direct(store, project)
    await imported(direct, markdown.read(b"- [x] over\n"), markdown.STATES)
    assert (await claim(direct.tools, "ann", {"role": "blocked", "parents": "any"}))["outcome"] == "no_match"


async def test_a_heading_that_becomes_a_task_is_one(store: Store, project: str) -> None:
    direct, source = Direct(store, project), markdown.read(ROADMAP)
    await imported(direct, source, markdown.STATES)
    changed = b"# Roadmap\n- [ ] Phase 1\n  - [ ] Task A\n  - [ ] Task B\n"
    assert (await imported(direct, markdown.read(changed), markdown.STATES)).created == 0
    assert await containers(direct) == {"Roadmap": "queue"}
