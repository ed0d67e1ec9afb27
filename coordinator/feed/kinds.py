"""Every kind of event: how it is named in the stream, and what listeners see of it.

README.md lists the same for readers; a test compares the two, and both with what the Lua operations append.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

ROLES = ("queue", "work", "review", "terminal", "blocked")
"""Roles of work items by their numbers in the stream."""


class Field(NamedTuple):
    """A member of an event's ``data`` besides project, id and rootId."""

    name: str
    doc: str
    show: Callable[[str], str | int] = str


class Kind(NamedTuple):
    """A kind of entry of the stream."""

    name: str
    """What listeners call it."""
    toolset: str
    """Whose ``.read`` permission opens it."""
    doc: str
    fields: Mapping[str, Field] = {}
    """By the letter or word in the stream. Other members of an entry are not shown: actors, holders, fences, ..."""
    said: Mapping[str, str] = {}
    """Members that follow from the kind itself."""
    asked: bool = False
    """Whether only listeners get it that name it (or its group) in ``kinds``."""

    @property
    def of_items(self) -> bool:
        return self.name.startswith("item.")


def uuid(digits: str) -> str:
    """An item's id as callers see it."""
    if len(digits) != 32:
        return digits
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _role(number: str) -> str:
    return ROLES[int(number)]


_OTHER = Field("otherId", "the item at the other end", uuid)
_REASON = Field("reason", "of a release: failed, gave_up, hopeless, handed_back or untouched; none otherwise")
_KEY = Field("key", "the note's key; not its text")
_STEP = {
    "s": Field("stepId", "the step"),
    "n": Field("step", "its key in the definition"),
    "f": Field("attempt", "its number, from 1", int),
}
_ENDED_BY = (
    "user: an operator ended it in place of the holder; resources: its item was reopened by another one, and what it "
    "demands was not free"
)
_BUDGET = "The budget of an item was spent, or is spent no longer."
_WORKFLOW = Field("workflow", "the definition")
_ACTIVITY = Field("activity", "where the session stands")
_CHECKPOINT = Field("checkpoint", "the checkpoint")

KINDS: dict[str, Kind] = {
    "create": Kind(
        "item.create",
        "items",
        "An item was created.",
        {"r": Field("to", "its role", _role), "p": Field("parentId", "its parent", uuid)},
    ),
    "update": Kind("item.update", "items", "Fields of an item were changed, or it was moved under another parent."),
    "delete": Kind("item.delete", "items", "An item was deleted."),
    "transition": Kind(
        "item.transition",
        "items",
        "An item went to another role.",
        {
            "f": Field("from", "the role before", _role),
            "t": Field("to", "the role now", _role),
            "g": Field(
                "trigger", "start, complete, block, hold, resume, cancel, reopen, cascade, quarantine or untouched"
            ),
            "n": Field("note", "result, if it brought the item's result, which has no event of its own"),
        },
    ),
    "note": Kind(
        "item.note",
        "items",
        "A note of an item was written. That of a result is told with the transition that brings it.",
        {"n": _KEY},
    ),
    "unnote": Kind("item.unnote", "items", "A note of an item was deleted.", {"n": _KEY}),
    "link": Kind("item.link", "items", "A dependency was created.", {"o": _OTHER}),
    "unlink": Kind("item.unlink", "items", "A dependency was deleted.", {"o": _OTHER}),
    "claim": Kind(
        "item.claim",
        "items",
        "An item was claimed.",
        {"o": Field("releasedId", "the item that the agent let go with it, which has no event of its own", uuid)},
        asked=True,
    ),
    "release": Kind(
        "item.release",
        "items",
        "The claim on an item was released.",
        {"r": _REASON, "b": Field("endedBy", _ENDED_BY)},
        asked=True,
    ),
    "expire": Kind("item.expire", "items", "The claim on an item expired.", asked=True),
    "agent_drain": Kind("agent.drain", "items", "An operator drains an agent, or those with slots of its name."),
    "agent_undrain": Kind("agent.undrain", "items", "The drain of an agent was ended."),
    "project_pause": Kind("project.pause", "items", "An operator lets nobody claim in the project."),
    "project_resume": Kind("project.resume", "items", "The pause of the project was ended."),
    "attempt": Kind(
        "item.attempt",
        "items",
        "A claim on an item ended without taking it further.",
        {
            "n": Field("attempts", "how many count", int),
            "e": Field("ended", "how: expired, taken_over or released"),
            "r": _REASON,
        },
    ),
    "quarantine": Kind(
        "item.quarantine",
        "items",
        "An item was quarantined: too many attempts failed, or one was hopeless.",
        {"n": Field("attempts", "how many count", int), "m": Field("max", "how many it may have", int)},
    ),
    "budget_spent": Kind("item.budget", "items", _BUDGET, said={"to": "spent"}),
    "budget_left": Kind("item.budget", "items", _BUDGET, said={"to": "left"}),
    "usage_refused": Kind(
        "item.usage_refused",
        "items",
        "A runner has not counted what a command says that it has used above the most of an attempt.",
        {
            "n": Field("key", "of the attempt's note"),
            "c": Field("costMicroUsd", "millionths of a US dollar", int),
            "t": Field("tokens", "input and output", int),
        },
    ),
    "flow_created": Kind("flow.created", "flows", "A workflow was created."),
    "flow_completed": Kind("flow.ended", "flows", "A workflow ended.", said={"to": "completed"}),
    "flow_failed": Kind("flow.ended", "flows", "A workflow ended.", said={"to": "failed"}),
    "flow_cancelled": Kind("flow.ended", "flows", "A workflow ended.", said={"to": "cancelled"}),
    "flow_paused": Kind("flow.paused", "flows", "A workflow was paused."),
    "flow_resumed": Kind("flow.resumed", "flows", "A paused workflow goes on."),
    "flow_retried": Kind("flow.retried", "flows", "The failed steps of a workflow run again."),
    "step_started": Kind("step.started", "flows", "A worker began an attempt at a step.", _STEP),
    "step_done": Kind("step.ended", "flows", "A step ended.", _STEP, {"to": "done"}),
    "step_failed": Kind("step.ended", "flows", "A step ended.", _STEP, {"to": "failed"}),
    "step_gate": Kind("step.waiting", "flows", "A gate waits for its release.", _STEP),
    "step_released": Kind("step.released", "flows", "A gate or a delayed step was released.", _STEP),
    "step_retry": Kind("step.retrying", "flows", "An attempt at a step failed, and another follows.", _STEP),
    "step_lost": Kind("step.lost", "flows", "The worker of a step was lost; another attempt follows.", _STEP),
    "session_start": Kind("session.start", "sessions", "A session began.", {"w": _WORKFLOW}),
    "session_move": Kind(
        "session.move",
        "sessions",
        "A session entered an activity.",
        {"w": _WORKFLOW, "from": Field("from", "the activity left"), "to": Field("to", "the activity entered")},
    ),
    "session_complete": Kind(
        "session.complete", "sessions", "A session ended.", {"w": _WORKFLOW, "from": Field("from", "the last activity")}
    ),
    "session_yield": Kind(
        "session.yield",
        "sessions",
        "A checkpoint waits for its answer.",
        {"w": _WORKFLOW, "at": _ACTIVITY, "cp": _CHECKPOINT},
    ),
    "session_answer": Kind(
        "session.answer",
        "sessions",
        "A checkpoint was answered.",
        {"w": _WORKFLOW, "at": _ACTIVITY, "cp": _CHECKPOINT},
    ),
    "session_resume": Kind(
        "session.resume", "sessions", "A session goes on after an answer.", {"w": _WORKFLOW, "at": _ACTIVITY}
    ),
    "session_join": Kind("session.join", "sessions", "Another agent has joined a session.", {"w": _WORKFLOW}),
    "session_bind": Kind(
        "session.bind", "sessions", "A session was bound to an item.", {"item": Field("itemId", "the item", uuid)}
    ),
    "session_takeover": Kind(
        "session.takeover",
        "sessions",
        "A session passed on with its item to the holder of a new claim.",
        {"item": Field("itemId", "the item", uuid)},
    ),
    "gateway_started": Kind(
        "gateway.started", "gateway", "An instance was started.", {"n": Field("definition", "the workflow's id")}
    ),
    "gateway_moved": Kind(
        "gateway.moved",
        "gateway",
        "An instance reached a state or a version.",
        {"s": Field("to", "its state"), "v": Field("version", "its version", int)},
    ),
    "gateway_failed": Kind(
        "gateway.failed",
        "gateway",
        "A transition failed, and its instance stays where it is.",
        {"s": Field("state", "its state"), "v": Field("version", "its version", int)},
    ),
    "gateway_asked": Kind(
        "gateway.asked",
        "gateway",
        "An instance waits for an approval.",
        {"h": Field("approvalId", "the approval"), "q": Field("queue", "whose it is")},
    ),
    "gateway_answered": Kind(
        "gateway.answered",
        "gateway",
        "An approval is open no longer.",
        {
            "h": Field("approvalId", "the approval"),
            "s": Field("to", "resolved or withdrawn"),
            "g": Field("transition", "the answer"),
        },
    ),
    "gateway_ended": Kind(
        "gateway.ended",
        "gateway",
        "An instance ended.",
        {"s": Field("to", "its last state"), "o": Field("outcome", "how it ended")},
    ),
}
"""By the name in the stream."""

HIDDEN = frozenset(("renew",))
"""Kinds of the stream that no listener gets."""

NAMES = tuple(dict.fromkeys(kind.name for kind in KINDS.values()))
GROUPS = tuple(dict.fromkeys(name.partition(".")[0] + ".*" for name in NAMES))
TOOLSETS = frozenset(kind.toolset for kind in KINDS.values())

GATEWAY_ID = "wf_"
"""What ids of gateway instances begin with. Events of their steps have the kinds of those of flows."""


def toolset_of(kind: Kind, subject: str) -> str:
    """Whose permission opens an event of this kind about the thing with this id."""
    return "gateway" if kind.toolset == "flows" and subject.startswith(GATEWAY_ID) else kind.toolset
