"""What people are asked for, in full: its context, and a form for each answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import htpy
import msgspec
from htpy import Node, a, dd, details, div, dl, dt, h3, li, p, pre, span, summary, ul

from coordinator.console.acts.buttons import Change, refusal, text_field
from coordinator.console.acts.confirms import confirm
from coordinator.console.acts.forms import answer_form, schema_fields
from coordinator.console.inbox.waiting import TOOLSET, Kind
from coordinator.console.parts import agent_link, ago, item_link, left, number, plain
from coordinator.console.view import Visit, path_of
from coordinator.console.viewer import Viewer
from coordinator.definitions import Checkpoint
from coordinator.toolsets.flows import WaitingGate
from coordinator.toolsets.gateway import HUMAN, AnswerChoice, Evidence, OpenApproval
from coordinator.toolsets.items import dashed, instant
from coordinator.toolsets.sessions import KeptAnswer, SeenSession

MOST_SHOWN = 64 * 1024
"""Characters of a value."""
_FOLDED_FROM = 2_000


def cannot(viewer: Viewer, kind: Kind) -> str:
    """Why a visitor may not answer anything of this kind; empty: they may."""
    reason = refusal(viewer, TOOLSET[kind])
    if not reason and kind == "approval" and viewer.caller is not None and HUMAN not in viewer.caller.roles:
        return f"needs the role '{HUMAN}'"
    return reason


def facts(*rows: tuple[str, Node]) -> Node:
    """Names with values; those without one are left out."""
    return dl(".pairs")[([dt[name], dd[value]] for name, value in rows if value)]


def value(name: str, content: Any) -> Node:
    """A value as JSON, folded if it is long, cut with a count if it is very long."""
    if content in (None, {}, [], ""):
        return None
    text = content if isinstance(content, str) else msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
    size = f"{number(len(text))} characters" if len(text) > _FOLDED_FROM else None
    if len(text) > MOST_SHOWN:
        size = f"the first {number(MOST_SHOWN)} of {size}"
    return details(open=size is None)[
        summary[name, " ", span(".dim")[size]], pre(".value", tabindex="0")[plain(text[:MOST_SHOWN])]
    ]


def evidence(pieces: Sequence[Evidence]) -> Node:
    """What was proved, the last one first."""
    if not pieces:
        return None
    rows = (li[plain(piece.kind), " by ", plain(piece.transition), " ", ago(piece.at)] for piece in reversed(pieces))
    return [h3["Evidence"], ul[rows]]


def approval(visit: Visit, request: OpenApproval) -> Iterator[Node]:
    instance = a(href=path_of("instance", visit.project, request.workflow))[plain(request.title or request.definition)]
    yield facts(
        ("instance", [instance, " in state ", plain(request.state), f", version {request.version}"]),
        ("asked by", [plain(request.requester), " by ", plain(request.asked_by), ", ", ago(request.asked_at)]),
        ("queue", plain(request.queue)),
        ("goal", plain(request.goal)),
        ("guidance", plain(request.guidance)),
        ("asked without an answer", plain(", ".join(request.declined))),
        ("time left", left(request.deadline) if request.deadline else None),
        ("four eyes", "whoever asks must not answer" if request.distinct else None),
    )
    if request.operation:
        yield p(".dim")[f"{plain(request.operation)} is in progress; you can answer when it has ended."]
    yield [value("Context", request.context), value("Input", request.input), evidence(request.evidence)]
    yield answers(visit, request.workflow, request.version, request.answers)


def answers(visit: Visit, workflow: str, version: int, choices: Sequence[AnswerChoice]) -> Node:
    """The transitions by which people may leave a state, each with its form."""
    if not choices:
        return None
    return [h3["Answers"], ul(".answers")[(li[_answer(visit, workflow, version, choice)] for choice in choices)]]


def _answer(visit: Visit, workflow: str, version: int, way: AnswerChoice) -> Node:
    fails = bool(way.targets) and way.targets[0].outcome == "failure"
    leads = [
        ["leads to ", span(".state")[plain(target.state)], f" ({target.outcome})" if target.outcome else None]
        if not n
        else [", or to ", plain(target.state)]
        for n, target in enumerate(way.targets)
    ]
    title = plain(way.title)
    leads_to = " or ".join(dict.fromkeys(target.state for target in way.targets)) or "where its rules say"
    change = Change(
        "call/gateway/workflow.submit",
        {"workflowId": workflow, "expectedVersion": version, "transition": way.transition, "arguments": way.arguments},
        f"Answered: {title}",
    )
    about = [way.description, *(target.description for target in way.targets[:1])]
    return [
        p[leads, ". ", span(".dim")[" ".join(plain(text) for text in about if text)]],
        answer_form(
            visit.project,
            change,
            title,
            schema_fields(way.input_schema, way.arguments, "arguments"),
            about=f"{workflow}:{way.transition}",
            refused=cannot(visit.viewer, "approval") or way.refusal,
            confirm=confirm("answer approval", answer=way.title, state=leads_to),
            kind="danger" if fails else "primary",
        ),
    ]


def gate(visit: Visit, step: WaitingGate) -> Iterator[Node]:
    flow = a(href=path_of("flow", visit.project, str(step.flow)))[f"flow {step.flow} ", plain(step.flow_name)]
    yield facts(
        ("flow", [flow, " (paused: what follows waits until it is resumed)" if step.paused else None]),
        ("gate", [plain(step.name), " ", span(".dim")[plain(step.key)] if step.key != step.name else None]),
        ("created by", plain(step.creator)),
        ("waits since", ago(step.since)),
        ("asks", f"the role {plain(step.role)}" if step.role else "everybody who may see the flow"),
        ("time left", left(step.expires_at) if step.expires_at else None),
        ("asked without an answer", plain(", ".join(step.declined))),
    )
    refused = cannot(visit.viewer, "gate") or ("" if step.may_release else f"The role {step.role!r} is required.")
    change = Change("call/flows/workflow_step_ready", {"step_id": step.step}, "Released.")
    yield [
        h3["Answers"],
        p["Releasing it lets the steps that wait for it begin. To refuse, cancel the flow on its page."],
        answer_form(
            visit.project, change, "Release the gate", refused=refused, confirm=confirm("release gate", name=step.name)
        ),
    ]


def checkpoint(visit: Visit, seen: SeenSession) -> Iterator[Node]:
    session = a(href=path_of("session", visit.project, seen.row.id))[plain(seen.title or seen.row.workflow)]
    definition = seen.definition
    yield facts(
        ("session", [session, " at ", plain(seen.row.activity)]),
        ("checkpoint", [plain(definition.name) if definition else None, " ", span(".dim")[plain(seen.row.checkpoint)]]),
        ("waits since", ago(seen.row.yielded_at)),
        ("item", item_link(visit.project, dashed(seen.row.item), "") if seen.row.item else None),
    )
    if definition is None:
        yield p(".answered")["Its definition was removed, so that it cannot be answered until that is back."]
        return
    yield p(".message")[plain(definition.message)]
    yield [h3["Answers"], ul(".answers")[(li[way] for way in _ways(visit, seen, definition))]]


def last_answer(seen: SeenSession) -> Node:
    """Who has answered last in a session, and how."""
    if not seen.view.answers:
        return p(".answered")["It waits for no answer."]
    last = seen.view.answers[-1]
    return p(".answered")[given(last), ", ", ago(last.at)]


def given(answer: KeptAnswer) -> Node:
    """Who has answered a checkpoint, and how."""
    said, way = answer.given, answer.given.option or answer.given.how.replace("_", " ")
    via = " (an agent's client was asked, and may have answered by itself)" if said.via else ""
    return [f"{plain(said.agent)} has answered {plain(said.checkpoint)}: ", htpy.strong[plain(way)], via]


def _ways(visit: Visit, seen: SeenSession, checkpoint: Checkpoint) -> Iterator[Node]:
    refused = cannot(visit.viewer, "checkpoint")

    def way(act: str, about: Node, **how: Any) -> Node:
        arguments = {"session_id": seen.row.id, "yielded_at": seen.row.yielded_at, **how}
        change = Change("call/sessions/respond_checkpoint", arguments, f"Answered: {act}")
        asks = confirm("answer checkpoint", answer=act)
        return [p[about], answer_form(visit.project, change, act, refused=refused, confirm=asks)]

    for choice in checkpoint.options:
        effect = msgspec.to_builtins(choice.effects)
        about = [plain(choice.description) if choice.description else None, " ",
                 "the default. " if choice.id == checkpoint.default_option else None,
                 [" effect: ", htpy.code[plain(msgspec.json.encode(effect).decode())]] if effect else None]  # fmt: skip
        yield way(plain(choice.label), about, option_id=choice.id)
    if checkpoint.condition:
        yield way("Its condition does not hold", "Goes on without an answer.", condition_not_met=True)
    if checkpoint.default_option and checkpoint.auto_advance_ms and not checkpoint.blocking:
        seconds = checkpoint.auto_advance_ms / 1000
        yield p(".dim")[f"Agents may take the default after {seconds:g} s."]


def question(visit: Visit, item: str, title: str, notes: Sequence[Any], gone_on: Node) -> Iterator[Node]:
    """The questions of an agent about an item, with their answers; ``gone_on``: why it waits for none any more."""
    by_key = {note.key: note for note in notes}
    yield facts(("item", item_link(visit.project, item, plain(title))))
    count = 0
    while f"question-{count + 1}" in by_key:
        count += 1
        for key in (f"question-{count}", f"answer-{count}"):
            if key in by_key:
                yield _note(visit, key, by_key[key])
    if gone_on is not None:
        yield p(".answered")[gone_on]
        return
    refused = cannot(visit.viewer, "question")
    resume = {"transitions": [{"itemId": item, "trigger": "resume", "summary": "answered"}]}
    key = f"answer-{count or 1}"
    if key in by_key:  # whoever has written it is about to resume the item, or could not
        yield p(".answered")[_author(visit, by_key[key]), " has answered; the item is not resumed yet."]
        yield answer_form(
            visit.project, Change("call/items/advance_item", resume, "Resumed."), "Resume", refused=refused
        )
        return
    note = {"itemId": item, "key": key, "role": "work", "expectedModifiedAt": ""}
    change = Change(
        "call/items/manage_notes",
        {"operation": "upsert", "notes": [note]},
        "Answered.",
        then=("call/items/advance_item", resume),
    )
    field = text_field("notes.0.body", "Your answer, which whoever takes the item next gets", lines=3, required=True)
    yield answer_form(
        visit.project, change, "Answer, and resume the item", field, about=f"{item}:{key}", refused=refused
    )


def _note(visit: Visit, key: str, note: Any) -> Node:
    when = ago(instant(note.modified_at, "modifiedAt"))
    return div(".said")[p(".dim")[key, " by ", _author(visit, note), ", ", when], pre(".value")[plain(note.body or "")]]


def _author(visit: Visit, note: Any) -> Node:
    actor = getattr(note, "actor", None)
    return agent_link(visit.project, actor.id) if actor else "someone unnamed"
