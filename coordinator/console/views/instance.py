"""An instance of a workflow of the gateway: its states, what it knows, who has to decide, and its audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import htpy
import msgspec
from htpy import Node, a, code, details, div, h2, li, ol, p, section, span, summary, ul

from coordinator.console.acts import buttons
from coordinator.console.inbox import asks
from coordinator.console.parts import ago, chip, left, number, plain
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element, region_head
from coordinator.errors import ToolFailure
from coordinator.settings.sections.gateway.model import State, Transition, Workflow
from coordinator.toolsets.gateway import (
    AnswerChoice,
    AuditEntry,
    Instance,
    OwnEntries,
    Principal,
    Snapshot,
    evidence_of,
    targets,
)
from coordinator.toolsets.items import instant

_SHOWN = 200
"""Entries of the audit on a page."""
_decode = msgspec.json.decode


async def _read(visit: Visit) -> tuple[Snapshot, list[AnswerChoice]]:
    """The instance; regions that are read at the same position share it. Raises ToolFailure."""
    who = Principal.of(visit.viewer.caller)

    async def make() -> tuple[Snapshot, list[AnswerChoice]] | None:
        return await visit.reads.admitted(
            visit.project, lambda: visit.reads.decisions.instance(visit.project, visit.id, who)
        )

    view = await visit.reads.shared(("instance", visit.project, visit.id, visit.viewer.caller, visit.at), make)
    if view is None:
        raise ToolFailure("RESOURCE_NOT_FOUND", f"There is no instance {visit.id[:80]} in this project (any more).")
    return view


async def _entries(visit: Visit, start: str = "") -> OwnEntries:
    reads, project, instance = visit.reads, visit.project, visit.id
    return await reads.shared(
        ("entries", project, instance, start, visit.at),
        lambda: reads.admitted(project, lambda: reads.decisions.entries(project, instance, start, _SHOWN)),
    )


async def _head(visit: Visit) -> Rows:
    view, _ = await _read(visit)
    run, workflow = view.instance, view.workflow
    state = workflow.states[run.state]
    content = [
        asks.facts(
            ("workflow", [plain(workflow.title or run.definition), " ", code[plain(run.definition)]]),
            ("state", [span(".state")[plain(run.state)], f", version {run.version} ", _outcome(run.outcome)]),
            ("goal", plain(state.goal or state.description)),
            ("guidance", plain(state.guidance)),
            ("started by", [plain(run.creator), ", ", ago(run.started_at)]),
            ("in progress", [plain(run.transition), " since ", ago(run.since)] if run.operation else None),
            ("time left", left(run.deadline) if run.deadline and not run.ended else None),
            ("last failure", _failure(run)),
        ),
        asks.value("Context", _decode(run.context)),
        asks.value("Input", _decode(run.input)),
        asks.evidence([evidence_of(text) for text in run.last_evidence]),
    ]  # fmt: skip
    return Rows([Row(f"instance:{visit.id}", content)])


def _failure(instance: Instance) -> Node:
    if not instance.failure:
        return None
    problem = _decode(instance.failure)
    where = f" in {plain(str(problem.get('transition')))}, "
    return [span(".refused")[plain(str(problem.get("message")))], where, ago(instance.failed_at)]


def _outcome(outcome: str) -> Node:
    return chip(outcome, "trouble" if outcome == "failure" else "") if outcome else None


async def _people(visit: Visit) -> Rows:
    """What waits for people, and the transitions that they may take."""
    view, answers = await _read(visit)
    instance = view.instance
    rows = [
        Row(
            f"approval:{approval.id}",
            p[
                a(href=path_of("approvals", visit.project) + f"?show=approval:{approval.id}")["An approval"],
                f" waits: {plain(approval.requester)} asks {plain(approval.queue)}, ",
                ago(approval.asked_at),
            ],
        )
        for approval in instance.approvals
    ]
    forms = None if instance.ended else asks.answers(visit, visit.id, instance.version, answers)
    content = [part for part in (await _moved(visit), forms) if part is not None]
    return Rows([*rows, Row("answers", content)] if content else rows)


async def _moved(visit: Visit) -> Node:
    moves = (entry for entry in (await _entries(visit)).rows if entry.type == "workflow.transitioned")
    last = next(moves, None)
    if last is None:
        return None
    ends = [plain(str(last.payload.get(end))) for end in ("from", "to")]
    way = f"{plain(last.actor)} has moved it from {ends[0]} to {ends[1]}, "
    return p(".answered")[way, ago(instant(last.at, "at"))]


async def _machine(visit: Visit) -> Rows:
    view, _ = await _read(visit)
    entries = (await _entries(visit)).rows
    visited = {str(entry.payload.get(end)) for entry in entries if entry.type == "workflow.transitioned"
               for end in ("from", "to")}  # fmt: skip
    workflow, at = view.workflow, view.instance.state
    rows = []
    for name in _in_order(workflow):
        state = workflow.states[name]
        classes = "now" if name == at else "visited" if name in visited else ""
        attributes = {"aria-current": "step"} if name == at else {}
        rows.append(Row(f"state:{name}", list(_state(name, state, classes)), classes, attributes))
    return Rows(rows)


def _in_order(workflow: Workflow) -> list[str]:
    """The states, breadth first from the initial one; those that nothing leads to come last."""
    order = {workflow.initial_state: None}
    waiting = [workflow.initial_state]
    while waiting:
        for transition in workflow.states[waiting.pop(0)].transitions.values():
            for target in targets(transition):
                if target not in order:
                    order[target] = None
                    waiting.append(target)
    return list({**order, **dict.fromkeys(workflow.states)})


def _state(name: str, state: State, where: str) -> Iterator[Node]:
    yield span(".state")[plain(name)]
    yield chip({"now": "now here", "visited": "was here"}[where]) if where else None
    if not state.transitions:
        yield chip("end: " + (state.outcome or "success"), "trouble" if state.outcome == "failure" else "")
    yield span(".dim")[plain(state.description or state.goal)]
    if state.transitions:
        yield ul[(li[_way(key, transition)] for key, transition in state.transitions.items())]


def _way(name: str, transition: Transition) -> Node:
    leads = " or ".join(dict.fromkeys(targets(transition)))
    return [plain(transition.title or name), span(".dim")[f" ({transition.actor}) to "], plain(leads)]


async def _audit(visit: Visit) -> Rows:
    start = visit.query.get("before", "")
    page = await _entries(visit, start)
    rows = [Row(f"entry:{entry.position}", list(_entry(entry))) for entry in page.rows]
    if page.next:
        rows.append(Row("more:audit", a(href=visit.url(before=page.next))["earlier entries"]))
    if page.begins:
        reach = "back to its start"
    elif page.next:
        reach = "with more before"
    else:
        reach = "earlier ones are not kept (events_max)"
    summary = f"{'Earlier' if start else 'The last'} {number(len(page.rows))} entries, {reach} "
    return Rows(rows, head=[span(".dim")[summary], a(href=visit.url(before=None))["the last ones"] if start else None])


def _entry(entry: AuditEntry) -> Iterator[Node]:
    yield span[ago(instant(entry.at, "at"))]
    yield span(".state")[plain(entry.type)]
    yield span[plain(entry.actor)]
    payload = msgspec.json.encode(entry.payload).decode()
    if payload not in ("{}", "null"):
        yield details[summary["details"], htpy.pre(".value", tabindex="0")[plain(payload[: asks.MOST_SHOWN])]]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    return div(".paper")[
        p[a(href=path_of("gateway", visit.project))["all instances"], " ", code[plain(visit.id)]],
        div(".halves")[
            section[
                h2["Now"], region_element(visit, "head", regions, div), region_element(visit, "people", regions, div)
            ],
            section[h2["States"], region_element(visit, "machine", regions, ol, class_="machine")],
        ],
        section[
            h2["Audit"],
            region_head("audit", regions, div(".list-head")),
            region_element(visit, "audit", regions, ul, "None of its entries is kept.", class_="asks"),
        ],
    ]


VIEW = View(
    "instance",
    "Instance",
    _body,
    {
        "head": Region(_head, ("gateway",), div, own=True),
        "people": Region(_people, ("gateway",), div, personal=True, own=True),
        "machine": Region(_machine, ("gateway",), li, own=True),
        "audit": Region(_audit, ("gateway",), li, own=True),
    },
    needs=("gateway",),
    takes_id=True,
    query=("before",),
    modules=(buttons.MODULE,),
)
