"""Projects: what there is in each that the viewer may see, and the way there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence

import htpy
from htpy import Node, a, div, span, tr

from coordinator.console.parts import ROLES, ago, number
from coordinator.console.tables import cell, pager, region_table, search_form
from coordinator.console.view import MOST_ROWS, Region, Rendered, Row, Rows, View, Visit, path_of, region_head
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.store.projects.lists import find
from coordinator.toolsets.items import ROLE_NAMES, ProjectState, read_project_state

SECONDS = 10
HOME = "overview"
_LOOKED_AT = 1_000
"""How many projects are looked for, those with the latest work first."""
_SHOWN = ("queue", "work", "review", "blocked", "terminal")
_VIEW = re.compile(r"[a-z]{1,40}")


async def _projects(visit: Visit) -> Rows:
    store, config = visit.reads.store, visit.reads.config
    names, more = await _names(visit)
    page = names[visit.offset : visit.offset + MOST_ROWS]

    async def read() -> Sequence[ProjectState]:
        # In one write; each is in a part of the store of its own.
        return await asyncio.gather(*(read_project_state(store, name, config) for name in page))

    states = await visit.reads.admitted(DEFAULT_PROJECT, read)
    rows = [Row(f"project:{name}", list(_cells(visit, name, state))) for name, state in zip(page, states, strict=True)]
    return Rows(rows, len(names), visit.offset, more, pager(visit, len(rows), len(names), more))


async def _names(visit: Visit) -> tuple[list[str], bool]:
    """The projects that the viewer may see, and whether there may be more."""
    prefix, viewer, listed = visit.query.get("name", "").strip(), visit.viewer, visit.listed
    seen = listed if viewer.projects is None else viewer.projects & listed if listed else viewer.projects
    if seen or viewer.projects is not None:
        return sorted(name for name in seen if name.startswith(prefix)), False
    names, more = await visit.reads.admitted(DEFAULT_PROJECT, lambda: find(visit.reads.store, prefix, _LOOKED_AT))
    return names, more


def _cells(visit: Visit, name: str, state: ProjectState) -> Iterator[Node]:
    yield cell("project")[a(href=path_of(_view(visit), name))[name]]
    if not visit.viewer.reads("items"):
        return
    yield cell("items", ".number")[number(state.total)]
    for role in _SHOWN:
        count = state.roles[ROLE_NAMES.index(role)]
        yield cell(ROLES[role], ".number")[number(count) if count else span(".dim")["0"]]
    yield cell("live claims", ".number")[number(state.claims)]
    yield cell("agents", ".number")[number(state.agents)]
    yield cell("last change")[ago(state.changed) if state.changed else span(".dim")["none yet"]]


def _view(visit: Visit) -> str:
    """The page that the chosen project is opened at."""
    chosen = visit.query.get("view", "")
    return chosen if _VIEW.fullmatch(chosen) else HOME


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    name = visit.query.get("name", "")
    opened = visit.viewer.first_project(visit.listed)
    first = 'fleet items add "Fix the login" --project NAME'
    none: Node = [
        "No project has work yet. The first item makes one: ", htpy.code(data_copy=first, tabindex="0")[first],
        ", or ", a(href=path_of(HOME, opened))[f"open {opened}"], ".",
    ]  # fmt: skip
    if name:
        none = [f"No project here begins with “{name}”. ", a(href=visit.url(name=None))["Show all"]]
    columns = ("project", "items", *(ROLES[role] for role in _SHOWN), "live claims", "agents", "last change")
    columns = columns if visit.viewer.reads("items") else columns[:1]
    return [
        search_form(visit, "name", "beginning of a name", {"view": visit.query.get("view")}),
        div(".list-head")[region_head("projects", regions)],
        region_table(visit, "projects", regions, columns, none, columns[1:-1]),
    ]


VIEW = View(
    "projects",
    "Projects",
    _body,
    {"projects": Region(_projects, (), tr, seconds=SECONDS, personal=True)},
    of_project=False,
    query=("name", "view", "project"),
)
