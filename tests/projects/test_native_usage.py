"""Sums of usage of whole projects: restored as they were, counted once, refused where they contradict each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from coordinator.projects.errors import BadFile, NotPossible
from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.usage import DAY_MS, GROUPS, read_usage, usage_entries
from tests.items.client import Client, Json, actor
from tests.items.moments import server_time
from tests.projects.native import SETTINGS, restored, same, written

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("several_projects")]


async def spend(tools: Client, item: str, agent: str = "", **used: Any) -> None:
    note: Json = {"itemId": item, "key": "k", "role": "work", "usage": used}
    if agent:
        note["actor"] = actor(agent)
    assert (await tools("manage_notes", operation="upsert", notes=[note]))["upserted"] == 1


async def reports(tools: Client) -> Json:
    """What ``fleet usage`` prints, by everything."""
    return {by: msgspec.to_builtins(await read_usage(tools.store, tools.project, by, 100)) for by in GROUPS}


async def as_if_yesterday(tools: Client) -> None:
    """Makes everything that was used so far be of the day before."""
    key, today = keys.usage.key(tools.project), await server_time(tools.store) // DAY_MS
    for field, entry in (await usage_entries(tools.store, tools.project)).items():
        if field == f"d{today}":
            await tools.store.command("HDEL", key, field)
            await tools.store.command("HSET", key, f"d{today - 1}", entry)
        elif field[0] == "a":
            await tools.store.command("HSET", key, field, entry.replace(f" {today}:", f" {today - 1}:"))


async def a_used_project(tools: Client) -> str:
    """Usage of two days by several agents with several models, also of an item that is gone; returns an open item."""
    root = await tools.add("root", budget={"tokens": 10**9})
    item, gone = await tools.add("item", parentId=root), await tools.add("gone")
    await spend(tools, item, "ann", inputTokens=7, outputTokens=2, cachedTokens=3, model="m1")
    await spend(tools, gone, "bob: 5", costMicroUsd=11, wallMs=13, model="m 2")
    await tools.delete(gone)
    await as_if_yesterday(tools)
    await spend(tools, root, "ann", inputTokens=1, model="m1")
    await spend(tools, item, "", outputTokens=4)
    await spend(tools, item, "eve", outputTokens=4, wallMs=1, model="\u00fc/\u2028")
    return item


async def test_sums_are_restored_by_day_agent_and_model(store: Store, project: str) -> None:
    tools, other = Client(store, project, SETTINGS), Client(store, f"{project}-2", SETTINGS)
    item = await a_used_project(tools)
    data, before = await written(store, project), await reports(tools)
    assert (len(before["day"]["rows"]), len(before["agent"]["rows"]), len(before["model"]["rows"])) == (2, 4, 4)
    await restored(store, other.project, data)
    assert await reports(other) == before
    same(await written(store, other.project), data)
    assert (await audit(store, other.project)).differences == []
    await spend(other, item, "ann", outputTokens=100)
    after = await reports(other)
    await restored(store, other.project, data)
    assert await reports(other) == after, "what was used since is lost"


async def test_budgets_of_agents_and_projects_hold_on_after_a_restoration(store: Store, project: str) -> None:
    item = await a_used_project(Client(store, project, SETTINGS))
    name = f"{project}-2"
    await restored(store, name, await written(store, project))
    day = Periods(day=Limits(tokens=5))
    for budgets, outcome in (
        (Budgets(agents={"eve": Periods(day=Limits(tokens=4))}), "budget_exhausted"),
        (Budgets(agents={"eve": day}), "success"),
        (Budgets(projects={name: Periods(total=Limits(cost_micro_usd=11))}), "budget_exhausted"),
        (Budgets(projects={name: Periods(day=Limits(cost_micro_usd=11))}), "success"),
    ):
        tools = Client(store, name, msgspec.structs.replace(SETTINGS, budgets=budgets))
        assert (await tools.claim("eve", item))["outcome"] == outcome
        await tools.release("eve", item)


def edited(data: bytes, edit: Callable[[list[Json]], Any]) -> bytes:
    """A project whose lines were edited; its end says how many there are."""
    lines = [json.loads(line) for line in data.splitlines()]
    edit(lines)
    lines[-1]["lines"] = len(lines) - 1
    return b"\n".join(json.dumps(line).encode() for line in lines)


def without_sums(lines: list[Json]) -> None:
    lines[:] = [line for line in lines if line["_type"] != "usage"]
    lines[0] |= {"version": 1, "exportedAt": "2026-03-04T23:59:59.000Z"}


async def test_a_file_of_version_1_counts_as_used_by_nobody_on_the_day_of_its_export(
    store: Store, project: str
) -> None:
    tools, other = Client(store, project, SETTINGS), Client(store, f"{project}-2", SETTINGS)
    await a_used_project(tools)
    before = await reports(tools)
    await restored(store, other.project, edited(await written(store, project), without_sums))
    after = await reports(other)
    used = {"inputTokens": 8, "outputTokens": 10, "cachedTokens": 3, "tokens": 18, "costMicroUsd": 0, "wallMs": 1}
    assert after["item"]["rows"] == before["item"]["rows"]
    for by, name in (("day", "2026-03-04"), ("agent", ""), ("model", "")):
        assert after[by] | {"today": ""} == {
            "by": by, "total": used, "rows": [{"name": name, "sum": used}], "count": 1, "today": "",
        }  # fmt: skip
    assert (await audit(store, other.project)).differences == []


async def test_a_project_with_other_usage_is_refused(store: Store, project: str) -> None:
    tools, other = Client(store, project, SETTINGS), Client(store, f"{project}-2", SETTINGS)
    await a_used_project(tools)
    data = await written(store, project)
    await tools.delete(*await tools.next(limit=20), recursive=True)
    for line in map(json.loads, data.splitlines()):
        if line["_type"] == "item" and "parentId" not in line:
            await tools.delete(line["id"], recursive=True)
    before = await reports(tools)
    assert before["item"]["rows"] == []
    await restored(store, project, data)  # nothing was used since it was written
    assert (await audit(store, project)).differences == []
    gone = await other.add()
    await spend(other, gone, "x", wallMs=1)
    await other.delete(gone)
    before = await reports(other)
    with pytest.raises(NotPossible, match="has usage of deleted items"):
        await restored(store, other.project, data)
    assert await reports(other) == before
    assert (await other("query_items", operation="search"))["total"] == 0


def of(lines: list[Json], by: str) -> Json:
    return next(line for line in lines if line.get("by") == by)


WRONG: list[tuple[Callable[[list[Json]], Any], str]] = [
    (lambda lines: lines.remove(of(lines, "day")), "does not add up"),
    (lambda lines: of(lines, "agent")["used"].update(wallMs=3), "does not add up"),
    (lambda lines: lines.insert(-1, of(lines, "model")), "twice"),
    (lambda lines: of(lines, "day").update(name="2026-02-30"), "must be a day, as 2026-01-31"),
    (lambda lines: of(lines, "day").update(name="1969-12-31"), "must be a day"),
    (lambda lines: of(lines, "agent").update(lastDay="2026-99-99"), "must be a day"),
    (lambda lines: of(lines, "agent")["used"].update(wallMs=-3), "wallMs"),
    (lambda lines: of(lines, "agent")["used"].update(wallMs=2**53), "wallMs"),
    (lambda lines: of(lines, "agent").update(by="planet"), "by"),
    (lambda lines: lines[1].update(usage={"wallMs": 2**63}), "wallMs"),
    (lambda lines: lines[1].update(budget={"tokens": 0}), "tokens"),
    (lambda lines: lines[1].update(budget={}), "needs at least one of"),
    (lambda lines: lines[1].update(resources=[{"key": "a b"}]), r"line 2: resources\[0\].key"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
async def test_wrong_sums_are_refused_before_anything_is_written(store: Store, project: str, number: int) -> None:
    edit, said = WRONG[number]
    await a_used_project(Client(store, project, SETTINGS))
    other = Client(store, f"{project}-2", SETTINGS)
    with pytest.raises(BadFile, match=said):
        await restored(store, other.project, edited(await written(store, project), edit))
    assert (await other("query_items", operation="search"))["total"] == 0
    assert await usage_entries(store, other.project) == {}
