"""A workflow: the graph of all steps of its definition, the steps with what they returned, and what has happened."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import htpy
import msgspec
from htpy import Node, a, details, div, h2, li, ol, p, pre, span, summary, table, tbody, td, th, thead, tr

from coordinator.console.acts.buttons import MODULE
from coordinator.console.acts.flow_actions import flow_buttons, step_button
from coordinator.console.graphs.drawing import GraphEdge, GraphNode, graph_element, graph_rows, structure
from coordinator.console.graphs.layouts import Drawn
from coordinator.console.parts import ago, icon, indented, number, plain, state, whole_id
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element
from coordinator.console.views.flows import flow_id, flow_status
from coordinator.errors import ToolFailure
from coordinator.feed.kinds import KINDS
from coordinator.steps.results import recorded_cut
from coordinator.toolsets.flows import (
    Flow,
    FlowEvent,
    FlowReads,
    Progress,
    Step,
    StepRecord,
    as_given,
    read_events,
    read_progress,
)

MOST_SHOWN = 65_536
"""Characters of a result, of arguments or of an input that a page shows."""
_STATES = {
    # status: icon and colour
    "pending": ("pending", "queue"),
    "ready": ("queue", "queue"),
    "paused": ("paused", "warning"),
    "running": ("work", "work"),
    "waits for release": ("gate", "review"),
    "done": ("done", "done"),
    "failed": ("failed", "blocked"),
    "cancelled": ("cancelled", "queue"),
    "not begun": ("none", "none"),
    "not taken": ("none", "none"),
}

_NOW = ("pending", "ready", "running", "waits for release", "failed")
"""What people want to see first."""


class _Shown(NamedTuple):
    progress: Progress
    edges: list[GraphEdge]
    drawn: Drawn

    def state_of(self, key: str) -> str:
        record = self.progress.steps.get(key)
        if record is None:
            return "not begun" if self.progress.row.status in ("running", "paused") else "not taken"
        return "waits for release" if record.gate else record.status


async def _shown(visit: Visit) -> _Shown:
    async def make() -> _Shown:
        progress = await visit.read(read_progress, visit.viewer.caller, flow_id(visit.id))
        if progress is None:
            raise ToolFailure("RESOURCE_NOT_FOUND", "there is no such workflow")
        edges = edges_of(progress.spec.flow)
        return _Shown(progress, edges, await visit.layouts.drawn(structure(len(progress.spec.flow), edges)))

    return await visit.reads.shared(("flow", visit.project, visit.id, visit.viewer.caller, visit.at), make)


def edges_of(flow: Flow) -> list[GraphEdge]:
    """The edges of a definition; those of a choice with their conditions."""
    places = {key: place for place, key in enumerate(flow)}
    edges: dict[tuple[int, int], GraphEdge] = {}
    for key, step in flow.items():
        labels = {arm.then: _briefly(arm.condition) for arm in reversed(step.branch)}
        for target in step.targets:
            edge = GraphEdge(places[key], places[target], labels.get(target, ""))
            edges.setdefault((edge.source, edge.target), edge)
    return list(edges.values())


def _briefly(condition: str) -> str:
    return condition.removeprefix("result ").removeprefix("== ").replace("!= ", "not ", 1)


async def _graph(visit: Visit) -> Rows:
    graph = await _shown(visit)
    if graph.drawn.layout is None:
        return Rows([], again=graph.drawn.again)
    flow, steps = graph.progress.spec.flow, graph.progress.steps
    nodes = []
    for place, (key, step) in enumerate(flow.items()):
        status = graph.state_of(key)
        record = steps.get(key)
        again = f", attempt {record.attempt}" if record is not None and record.attempt > 1 else ""
        shape, tone = _STATES[status]
        first = "first" if status in _NOW else ""
        nodes.append(GraphNode(f"step:{place}", step.name, shape, tone, status + again, f"#s{place}", first))
    keys = list(flow)
    over = {key for key, record in steps.items() if record.status in ("done", "failed")}
    taken = {
        (edge.source, edge.target) for edge in graph.edges if keys[edge.source] in over and keys[edge.target] in steps
    }
    return Rows(await to_thread(graph_rows, graph.drawn.layout, nodes, graph.edges, taken))


async def _steps(visit: Visit) -> Rows:
    graph = await _shown(visit)
    whole = await _whole(visit, flow_id(visit.query.get("step", "")))

    def rows() -> Iterator[Row]:
        for place, (key, step) in enumerate(graph.progress.spec.flow.items()):
            cells = _cells(visit, place, step, graph.progress.steps.get(key), graph.state_of(key), whole)
            yield Row(f"step:{place}", htpy.fragment[cells].__html__(), "", {"id": f"s{place}"})

    return Rows(await to_thread(list, rows()))  # 200 at once are much


async def _whole(visit: Visit, step: int) -> StepRecord | None:
    """The one step that the viewer wants to see with its whole result."""
    if not step:
        return None
    progress = await visit.reads.admitted(
        visit.project, lambda: FlowReads(visit.reads.store).get(visit.project, flow_id(visit.id), step)
    )
    return progress.steps[0] if progress is not None and progress.steps else None


def _cells(
    visit: Visit, place: int, step: Step, record: StepRecord | None, status: str, whole: StepRecord | None
) -> Node:
    shape, tone = _STATES[status]
    most = step.retry.max_attempts if step.retry is not None else 1
    definition = {name: value for name, value in as_given(step).items() if name != "name"}
    return [
        td[plain(step.name), [" ", whole_id(str(record.id))] if record is not None else None],
        td[
            state(tone, shape, status),
            _aside(step, record),
            [" ", step_button(visit, step, record)] if record is not None else None,
        ],
        td[plain(step.tool or ("gate" if step.gate else "none"))],
        td(".number")[f"{record.attempt} of {most}" if record is not None and step.tool else None],
        td[ago(record.started_at) if record is not None and record.started_at else None],
        td(".number")[_took(record)],
        td[
            _folded("definition", msgspec.json.encode(definition).decode()),
            _result(visit, place, record, whole) if record is not None else None,
        ],
    ]


def _aside(step: Step, record: StepRecord | None) -> Node:
    if record is None:
        return None
    if record.approved_by:
        return [" by ", plain(record.approved_by)]
    if record.gate and step.approver_role:
        return [" by the role ", plain(step.approver_role)]
    if record.status == "pending" and record.ready_at:
        return [" until ", htpy.time(".left", data_left=str(record.ready_at))[" "]]
    return None


def _took(record: StepRecord | None) -> str | None:
    if record is None or not record.completed_at or not record.started_at:
        return None
    ms = record.completed_at - record.started_at
    return f"{ms} ms" if ms < 1_000 else f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min"


def _result(visit: Visit, place: int, record: StepRecord, whole: StepRecord | None) -> Node:
    name = "error" if record.status == "failed" else "result"
    if whole is not None and whole.id == record.id and whole.result_json is not None:
        return _folded(name, whole.result_json, unfolded=True)
    if record.result_json is not None:
        return _folded(name, record.result_json)
    if record.status in ("done", "failed"):  # it is long
        return a(href=f"{visit.url(step=str(record.id))}#s{place}")[f"show the {name}"]
    return None


def _folded(name: str, json: str, unfolded: bool = False) -> Node:
    """JSON, folded shut and cut. Of one that was cut when it was recorded, the beginning."""
    heading = name
    if (cut := recorded_cut(json)) is not None:
        json = cut.beginning[:MOST_SHOWN]
        heading += f": first {number(len(json))} characters of {number(cut.bytes)} bytes"
    elif len(json) > MOST_SHOWN:
        heading += f": first {number(MOST_SHOWN)} of {number(len(json))} characters"
    else:
        json = indented(json)
    return details(open=unfolded)[summary[heading], pre(tabindex="0")[plain(json[:MOST_SHOWN])]]


async def _state(visit: Visit) -> Rows:
    graph = await _shown(visit)
    progress = graph.progress
    row, steps = progress.row, progress.steps.values()
    ended = sum(step.status in ("done", "failed", "cancelled") for step in steps)
    over = row.completed_at or row.cancelled_at
    waits = [progress.spec.flow[step.key].name for step in steps if step.gate]
    content = [
        flow_status(row.status),
        span(".role.review")[icon("gate"), f"waits for {plain(', '.join(waits))}"] if waits else None,
        span[f"{ended} of {len(progress.spec.flow)} steps ended"],
        span["created ", ago(row.created_at), " by ", plain(row.creator)],
        span["ended ", ago(over), f" by {plain(row.cancelled_by)}" if row.cancelled_by else None] if over else None,
        a(href=path_of("flow", visit.project, row.parent))[f"for workflow {row.parent}"] if row.parent else None,
        p(".reason")[plain(row.error)] if row.error else None,
        span(".dim")[graph.drawn.why] if graph.drawn.why else None,
    ]
    return Rows([Row(f"flow:{row.id}", content)], again=graph.drawn.again)


async def _actions(visit: Visit) -> Rows:
    progress = (await _shown(visit)).progress
    again = sum(step.status in ("failed", "cancelled") for step in progress.steps.values())
    return Rows([Row(f"action:{name}", button) for name, button in flow_buttons(visit, progress.row, again)])


async def _events(visit: Visit) -> Rows:
    graph = await _shown(visit)
    events, complete = await visit.read(read_events, graph.progress)
    flow = graph.progress.spec.flow
    # A newer release may know further kinds.
    rows = [Row(f"event:{event.entry}", _told(event, flow)) for event in events if event.kind in KINDS]
    return Rows(rows if complete else [*rows, Row("event:older", "Older events are not listed.", "dim")])


def _told(event: FlowEvent, flow: Flow) -> Node:
    kind = KINDS[event.kind]
    words = f"{kind.name.partition('.')[2]}{' ' + kind.said['to'] if kind.said else ''}".removeprefix("ended ")
    step = flow.get(event.step)
    return [
        ago(event.at),
        " ",
        [span(".name")[plain(step.name)], f" attempt {event.attempt} " if step.tool else " "]
        if step is not None
        else None,
        words,
        f" by {plain(event.actor)}" if event.actor else None,
        f": {plain(event.reason)}" if event.reason else None,
    ]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    graph = await _shown(visit)
    progress = graph.progress
    input_: dict[str, Any] = progress.spec.given
    heads = ("step", "state", "tool", "attempt", "began", "took", "what")
    return [
        h2(".subject")[plain(progress.row.name), " ", whole_id(str(progress.row.id))],
        region_element(visit, "state", regions, ol, class_="facts"),
        region_element(visit, "actions", regions, htpy.menu, class_="actions", aria_label="Actions"),
        graph_element(visit, "graph", regions, graph.drawn.layout, "Graph of steps", "Bold edges were taken."),
        h2["Steps"],
        div(".wide-table")[
            table[thead[tr[(th(scope="col")[head] for head in heads)]], region_element(visit, "steps", regions, tbody)]
        ],
        h2["Input"] if input_ else None,
        _folded("input", msgspec.json.encode(input_).decode()) if input_ else None,
        h2["History"],
        region_element(visit, "events", regions, ol, class_="history"),
    ]


def _region(load: Any, row: htpy.Element = li) -> Region:
    return Region(load, ("flows",), row, personal=True, own=True)


VIEW = View(
    "flow",
    "Workflow",
    _body,
    {
        "state": _region(_state),
        "actions": _region(_actions),
        "graph": _region(_graph, htpy.g),
        "steps": _region(_steps, tr),
        "events": _region(_events),
    },
    needs=("flows",),
    takes_id=True,
    query=("step",),
    modules=("graph.js", MODULE),
)
