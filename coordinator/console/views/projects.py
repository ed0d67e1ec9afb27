"""Projects: what there is in each that the viewer may see, and the way there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence

import htpy
from htpy import Node, a, div, span, tr

from coordinator.console.parts import ROLES, ago, number
from coordinator.console.tables import cell, pager, region_table, search_form
from coordinator.console.view import MOST_ROWS, Asked, Region, Rendered, Row, Rows, View, path_of, region_head
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.store.projects.lists import find
from coordinator.toolsets.items import ROLE_NAMES, ProjectState, read_project_state

SECONDS = 10
HOME = "overview"
_LOOKED_AT = 1_000
"""How many projects are looked for, those with the latest work first."""
_SHOWN = ("queue", "work", "review", "blocked", "terminal")
_VIEW = re.compile(r"[a-z]{1,40}")


async def _projects(asked: Asked) -> Rows:
    store, config = asked.reads.store, asked.reads.config
    names, more = await _names(asked)
    page = names[asked.offset : asked.offset + MOST_ROWS]

    async def read() -> Sequence[ProjectState]:
        # In one write; each is in a part of the store of its own.
        return await asyncio.gather(*(read_project_state(store, name, config) for name in page))

    states = await asked.reads.admitted(DEFAULT_PROJECT, read)
    rows = [Row(f"project:{name}", list(_cells(asked, name, one))) for name, one in zip(page, states, strict=True)]
    return Rows(rows, len(names), asked.offset, more, pager(asked, len(rows), len(names), more))


async def _names(asked: Asked) -> tuple[list[str], bool]:
    """The projects that the viewer may see, and whether there may be more."""
    prefix, viewer, listed = asked.query.get("name", "").strip(), asked.viewer, asked.listed
    seen = listed if viewer.projects is None else viewer.projects & listed if listed else viewer.projects
    if seen or viewer.projects is not None:
        return sorted(name for name in seen if name.startswith(prefix)), False
    names, more = await asked.reads.admitted(DEFAULT_PROJECT, lambda: find(asked.reads.store, prefix, _LOOKED_AT))
    return names, more


def _cells(asked: Asked, name: str, state: ProjectState) -> Iterator[Node]:
    yield cell("project")[a(href=path_of(_view(asked), name))[name]]
    if not asked.viewer.reads("items"):
        return
    yield cell("items", ".number")[number(state.total)]
    for shown in _SHOWN:
        count = state.roles[ROLE_NAMES.index(shown)]
        yield cell(ROLES[shown], ".number")[number(count) if count else span(".dim")["0"]]
    yield cell("live claims", ".number")[number(state.claims)]
    yield cell("agents", ".number")[number(state.agents)]
    yield cell("last change")[ago(state.changed) if state.changed else span(".dim")["none yet"]]


def _view(asked: Asked) -> str:
    """The page that the chosen project is opened at."""
    given = asked.query.get("view", "")
    return given if _VIEW.fullmatch(given) else HOME


async def _body(asked: Asked, found: Mapping[str, Rendered]) -> Node:
    name = asked.query.get("name", "")
    opened = asked.viewer.first_project(asked.listed)
    first = 'fleet items add "Fix the login" --project NAME'
    none: Node = [
        "No project has work yet. The first item makes one: ", htpy.code(data_copy=first, tabindex="0")[first],
        ", or ", a(href=path_of(HOME, opened))[f"open {opened}"], ".",
    ]  # fmt: skip
    if name:
        none = [f"No project here begins with “{name}”. ", a(href=asked.url(name=None))["Show all"]]
    columns = ("project", "items", *(ROLES[one] for one in _SHOWN), "live claims", "agents", "last change")
    columns = columns if asked.viewer.reads("items") else columns[:1]
    return [
        search_form(asked, "name", "beginning of a name", {"view": asked.query.get("view")}),
        div(".list-head")[region_head("projects", found)],
        region_table(asked, "projects", found, columns, none, columns[1:-1]),
    ]


VIEW = View(
    "projects",
    "Projects",
    _body,
    {"projects": Region(_projects, (), tr, seconds=SECONDS, personal=True)},
    of_project=False,
    query=("name", "view", "project"),
)
