"""The inbox: all that waits for a person, with the answers that they may give, and what was answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import htpy
from htpy import Node, a, code, div, h2, nav, p, section, span, ul

from coordinator.console.acts import buttons
from coordinator.console.acts.buttons import refusal
from coordinator.console.inbox import asks
from coordinator.console.inbox.answered import PastAnswer, read_history
from coordinator.console.inbox.waiting import KINDS, TOOLSET, Kind, Waiting, read_inbox
from coordinator.console.items.actions import budget_dialog, budget_opener
from coordinator.console.live import INBOX
from coordinator.console.numbers.spent import Spent, raising, spent_budgets, whose
from coordinator.console.parts import ago, chip, number, plain, sentence, short
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element
from coordinator.console.views.flows import flow_id
from coordinator.console.views.needs import APPROVALS
from coordinator.errors import ToolFailure
from coordinator.store.keys import MOST_ANSWERED
from coordinator.toolsets.flows import MOST_GATES, WaitingGate, waiting_gates
from coordinator.toolsets.gateway import Answered, OpenApproval, Principal
from coordinator.toolsets.items import FullItem, dashed, instant, shown_limits
from coordinator.toolsets.sessions import SeenSession, SessionRow

_NAMES: Mapping[Kind, str] = {
    "approval": "approvals",
    "gate": "gates of flows",
    "checkpoint": "checkpoints",
    "question": "questions",
}
_PAGE = 20
"""Of each kind: reading one takes a millisecond."""
_ABOUT = 160
"""Characters of a text in the list."""
SECONDS = 5
"""How often budgets are read: reports of usage alone are no events."""
_RELOAD = "fleet reload"
_ABSENT = ("RESOURCE_NOT_FOUND", "VALIDATION_ERROR")


def _kinds(visit: Visit) -> list[Kind]:
    """The kinds that are listed: those that the viewer may see, or the chosen one of them."""
    chosen = visit.query.get("kind")
    return [kind for kind in KINDS if visit.viewer.reads(TOOLSET[kind]) and chosen in (None, "", kind)]


def _shown(row: Waiting) -> str:
    return f"gate:{row.detail.flow}:{row.id}" if isinstance(row.detail, WaitingGate) else f"{row.kind}:{row.id}"


async def _open(visit: Visit) -> Rows:
    kinds, after = _kinds(visit), visit.query.get("after", "")
    if len(kinds) != 1:
        after = ""
    begins = {kind: after for kind in kinds if after}
    caller, decisions = visit.viewer.caller, visit.reads.decisions
    inbox = await visit.read(read_inbox, decisions, caller, kinds=kinds, after=begins, limit=_PAGE)
    rows = [Row(f"{row.kind}:{row.id}", _line(visit, row)) for row in inbox.rows]
    return Rows([*rows, *(Row(f"more:{kind}", _more(visit, kind, inbox.next[kind])) for kind in inbox.next)])


def _line(visit: Visit, waiting: Waiting) -> Node:
    key = _shown(waiting)
    current = "true" if visit.query.get("show") == key else None
    refusal = waiting.refusal if visit.viewer.is_person else ""
    return [
        a(href=visit.url(show=key), aria_current=current)[plain(_title(waiting)) or waiting.id],
        span(".chip")[waiting.kind],
        code(".id")[_told_apart(waiting)],
        span(".dim")[
            f"{plain(waiting.asked_by)} asks " if waiting.asked_by else None,
            f"{plain(waiting.whom)}, " if waiting.whom else None,
            ago(waiting.since),
        ],
        span(".why.dim")[refusal] if refusal else None,
        span(".about.dim")[plain(_about(waiting))],
    ]


def _title(row: Waiting) -> str:
    """What it is called: a gate by its flow and step, as many flows have steps of the same name."""
    detail = row.detail
    return f"{detail.flow_name}: {row.title}" if isinstance(detail, WaitingGate) else row.title


def _told_apart(row: Waiting) -> str:
    """What it is about, by an id as other pages show it: many of one definition may wait."""
    detail = row.detail
    if isinstance(detail, WaitingGate):
        return str(detail.flow)
    return detail.workflow if isinstance(detail, OpenApproval) else short(row.id)


def _about(row: Waiting) -> str:
    detail = row.detail
    if isinstance(detail, SessionRow):
        text = f"{detail.workflow}, {detail.activity}"
    elif isinstance(detail, OpenApproval):
        inputs = (f"{name}: {value}" for name, value in detail.input.items() if isinstance(value, (str, int, float)))
        text = "; ".join((*inputs, detail.goal) if detail.goal else inputs)
    else:
        text = f"step {detail.place} of {detail.steps}" if isinstance(detail, WaitingGate) else detail.text
    return _short(text)


def _short(text: str) -> str:
    return text if len(text) <= _ABOUT else text[:_ABOUT] + "…"


def _more(visit: Visit, kind: Kind, after: str) -> Node:
    earlier = a(href=visit.url(kind=kind, after=after))[f"earlier {_NAMES[kind]}"]
    return [f"The last {_PAGE} {_NAMES[kind]}; ", earlier]


async def _budgets(visit: Visit) -> Rows:
    if not visit.viewer.reads("items") or visit.query.get("kind"):
        return Rows([])
    budgets, more = await spent_budgets(visit)
    rows = [Row(f"budget:{budget.of}:{budget.name}", _budget(visit, budget)) for budget in budgets]
    if more:
        rows.append(Row("more:budgets", ["Of further items, see ", a(href=path_of("usage", visit.project))["Usage"]]))
    return Rows(rows)


def _budget(visit: Visit, budget: Spent) -> Node:
    if budget.item is None:
        where = path_of("usage", visit.project)
        reload = code(data_copy=_RELOAD, tabindex="0")[_RELOAD]
        act: Node = ["raise ", code[raising(budget)], " in the settings, then ", reload]
    else:
        item = dashed(budget.name)
        where = path_of("item", visit.project, item)
        opener = budget_opener(visit, item, shown_limits(budget.item.budget))
        act = None if refusal(visit.viewer, "items") else opener
    return [
        a(href=where)[sentence(f"{whose(budget)} is spent").removesuffix(".")],
        chip("budget spent", "trouble", "no agent gets what is under it"),
        span(".dim")[budget.text],
        act,
    ]


async def _shown_one(visit: Visit) -> Rows:
    kind, _, what = visit.query.get("show", "").partition(":")
    if kind not in KINDS or not what:
        return Rows([])
    if not visit.viewer.reads(TOOLSET[kind]):
        raise ToolFailure("permission_denied", f"this needs the permission '{TOOLSET[kind]}.read'")
    try:
        head, content = await _READ[kind](visit, what)
    except ToolFailure as failure:
        if failure.code not in _ABSENT:
            raise
        head, content = "There is no such thing (any more)", p(".answered")[sentence(failure.message)]
    return Rows([Row(f"{kind}:{what}", [h2[head], a(".back", href=visit.url(show=None))["back to the list"], content])])


async def _approval(visit: Visit, id: str) -> tuple[str, Node]:
    who = Principal.of(visit.viewer.caller)
    approval = await visit.reads.admitted(visit.project, lambda: visit.reads.decisions.approval(visit.project, id, who))
    if approval is None:
        raise ToolFailure("RESOURCE_NOT_FOUND", f"There is no approval {id[:80]}: its instance was deleted.")
    done, waiting = approval
    if waiting is not None:
        return f"{plain(waiting.title or waiting.definition)}: approval", list(asks.approval(visit, waiting))
    return f"{plain(done.definition)}: {done.status}", _answered(visit, id, done)


def _answered(visit: Visit, id: str, done: Answered) -> Node:
    if done.status == "pending":
        return p(".answered")["Its instance has just moved on."]
    by = f"{plain(done.by)} has answered: " if done.by else f"{done.status}: "
    via = " (an agent's client was asked, and may have answered by itself)" if done.via else ""
    return [
        p(".answered")[by, htpy.strong[plain(done.answer) or "no answer"], ", ", ago(done.answered_at), via],
        asks.facts(
            ("instance", a(href=path_of("instance", visit.project, done.workflow))[plain(done.workflow)]),
            ("asked by", [plain(done.requester), " by ", plain(done.transition), ", ", ago(done.asked_at)]),
            ("queue", plain(done.queue)),
            ("approval", htpy.code[id]),
        ),
    ]


async def _gate(visit: Visit, id: str) -> tuple[str, Node]:
    flow, step = (flow_id(part) for part in id.partition(":")[::2])
    if not (flow and step):
        raise ToolFailure("RESOURCE_NOT_FOUND", "There is no such gate.")
    page = await visit.read(waiting_gates, visit.viewer.caller, limit=MOST_GATES)
    waiting = next((gate for gate in page.rows if gate.step == step), None)
    if waiting is not None:
        return f"{plain(waiting.flow_name)}: gate {plain(waiting.name)}", list(asks.gate(visit, waiting))
    workflow = await visit.tool("flows", "workflow_get", {"id": flow, "step": step})
    gate = next(iter(workflow.steps), None)
    if gate is None:
        raise ToolFailure("RESOURCE_NOT_FOUND", "There is no such gate.")
    said = f"{plain(gate.approved_by)} has released it" if gate.approved_by else f"It is {gate.status}"
    when: Node = [", ", ago(gate.completed_at)] if gate.completed_at else None
    to_flow = p[a(href=path_of("flow", visit.project, str(flow)))[f"flow {flow}"]]
    return f"{plain(workflow.name)}: gate {plain(gate.name)}", [p(".answered")[said, when], to_flow]


async def _checkpoint(visit: Visit, id: str) -> tuple[str, Node]:
    seen: SeenSession = await visit.tool("sessions", "read_session", {"session_id": id})
    title = f"{plain(seen.title or seen.row.workflow)}: checkpoint"
    if seen.row.checkpoint:
        return title, list(asks.checkpoint(visit, seen))
    link = p[a(href=path_of("session", visit.project, seen.row.id))["its session"]]
    return title, [asks.last_answer(seen), link]


async def _question(visit: Visit, id: str) -> tuple[str, Node]:
    item = await visit.tool("items", "query_items", {"operation": "get", "id": id})
    notes = await visit.tool("items", "query_notes", {"operation": "list", "itemId": item.id})
    content = asks.question(visit, item.id, item.title, notes.notes, None if item.role == "blocked" else _gone_on(item))
    return f"{plain(item.title)}: question", list(content)


def _gone_on(item: FullItem) -> Node:
    """Who has taken an item on that waits for no answer."""
    last = next(iter(item.transitions or ()), None)
    if last is None or not last.actor:
        return "The item waits for no answer."
    how = f"{plain(last.actor.id)} has taken the item on ({last.trigger.replace('_', ' ')}), "
    return [how, ago(instant(last.at, "at"))]


_READ = {"approval": _approval, "gate": _gate, "checkpoint": _checkpoint, "question": _question}


async def _answers(visit: Visit) -> Rows:
    kinds = _kinds(visit)
    if not kinds:
        return Rows([])
    caller, decisions, after = visit.viewer.caller, visit.reads.decisions, visit.query.get("before", "")
    history = await visit.read(read_history, decisions, caller, kinds=kinds, after=after, limit=_PAGE)
    rows = [Row(f"{row.kind}:{row.position}", list(_past(visit, row))) for row in history.rows]
    more = [a(href=visit.url(before=history.next))["earlier answers"]]
    return Rows([*rows, Row("more:answered", more)] if history.next else rows)


def _past(visit: Visit, answer: PastAnswer) -> Iterator[Node]:
    yield a(href=visit.url(show=f"{answer.kind}:{answer.id}"))[plain(answer.title)]
    yield span(".chip")[answer.kind]
    yield span[plain(answer.by) or "nobody", ": ", htpy.strong[plain(_short(answer.what))]]
    yield span(".dim")[f"asked by {plain(answer.asked_by)}, " if answer.asked_by else None, ago(answer.at)]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    readable = [kind for kind in KINDS if visit.viewer.reads(TOOLSET[kind])]
    chosen = visit.query.get("kind", "")
    choices = [("", "all"), *((kind, _NAMES[kind]) for kind in readable)]
    anew = {"after": None, "before": None, "show": None}
    links = (
        a(href=visit.url(kind=kind, **anew), aria_current="true" if kind == chosen else None)[name]
        for kind, name in choices
    )
    return div(".inbox")[
        section(aria_label="Open")[
            nav(".filters", aria_label="Kinds")[list(links)],
            region_element(visit, "budgets", regions, ul, class_="asks", aria_label="Spent budgets"),
            region_element(
                visit, "open", regions, ul, "Nothing waits for a person. Agents ask by approvals, gates, checkpoints "
                "and questions; what they ask appears here at once.", class_="asks",
            ),
            h2["Answered"],
            region_element(visit, "answers", regions, ul, "Nothing has been answered yet.", class_="asks"),
            p(".dim")[
                f"Of gates, checkpoints and questions, the last {number(MOST_ANSWERED)} answers of each are kept; "
                "approvals as long as their instances."
            ],
        ],
        section(aria_label="Shown")[region_element(visit, "shown", regions, div, "Nothing is chosen.", class_="asked")],
        budget_dialog(visit),
    ]  # fmt: skip


VIEW = View(
    APPROVALS,
    "Approvals",
    _body,
    {
        "budgets": Region(_budgets, ("items",), htpy.li, personal=True, seconds=SECONDS),
        "open": Region(_open, (INBOX,), htpy.li, personal=True),
        "shown": Region(_shown_one, (*TOOLSET.values(), INBOX), htpy.article, personal=True),
        "answers": Region(_answers, (INBOX,), htpy.li, personal=True),
    },
    needs=tuple(TOOLSET.values()),
    query=("kind", "after", "before", "show"),
    modules=(buttons.MODULE,),
)
