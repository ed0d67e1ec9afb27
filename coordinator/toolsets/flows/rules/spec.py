"""A flow as the rules and the workers use it: checked, with its defaults filled in.

It is stored with its workflow in this form (``pack``), so later changes of the rules for callers' flows do not affect
existing workflows.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from coordinator.steps.handoff import Priority
from coordinator.steps.model import Retry
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.limits import DEFAULT_TIMEOUT_MS

START = "start"
"""The key of the first step."""

OnError = Literal["fail", "continue"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)


class Arm(Struct, frozen=True, array_like=True):
    """One entry of a ``branch``."""

    condition: str
    then: str


class Step(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step. Exactly one of ``next``, ``branch``, ``parallel``, ``join`` and ``done`` is set."""

    name: str = msgspec.field(name="n")
    tool: str | None = msgspec.field(name="t", default=None)
    args: dict[str, Any] = msgspec.field(name="a", default_factory=dict)
    next: str | None = msgspec.field(name="x", default=None)
    branch: tuple[Arm, ...] = msgspec.field(name="b", default=())
    parallel: tuple[str, ...] = msgspec.field(name="p", default=())
    join: str | None = msgspec.field(name="j", default=None)
    done: bool = msgspec.field(name="d", default=False)
    fork: str | None = msgspec.field(name="f", default=None)
    """With ``join``: the key of the step whose ``parallel`` began the branch that ends here."""
    gate: bool = msgspec.field(name="g", default=False)
    """Waits for workflow_step_ready; only without a tool."""
    approver_role: str | None = msgspec.field(name="r", default=None)
    retry: Retry | None = msgspec.field(name="y", default=None)
    timeout_ms: int = msgspec.field(name="m", default=DEFAULT_TIMEOUT_MS)
    """The timeout of one attempt; for a gate how long it waits, 0: for ever."""
    on_error: OnError = msgspec.field(name="e", default="fail")
    queue: str | None = msgspec.field(name="q", default=None)
    priority: Priority | None = msgspec.field(name="o", default=None)
    delay_ms: int = msgspec.field(name="w", default=0)

    @property
    def targets(self) -> tuple[str, ...]:
        """The keys of all steps that may follow."""
        single = self.next or self.join
        return (single,) if single else (*self.parallel, *(arm.then for arm in self.branch))


Flow = dict[str, Step]
"""Steps by key, in the author's order."""


class Spec(Struct, frozen=True, omit_defaults=True):
    """The stored part of a workflow."""

    flow: Flow = msgspec.field(name="f")
    given: dict[str, Any] = msgspec.field(name="i", default_factory=dict)
    """The input variables."""
    creator: Caller | None = msgspec.field(name="c", default=None)
    """The verified caller who created it; None: the creator is unknown."""
    owner: str = msgspec.field(name="o", default="")
    """Whose states of servers its steps use, if not its own: the outermost workflow or the instance that began it."""


pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Spec).decode


def as_given(step: Step) -> dict[str, Any]:
    """A step as callers write it, without fields that have their default."""
    shown: dict[str, Any] = {"name": step.name, "tool": step.tool}
    for name in step.__struct_fields__:
        value = getattr(step, name)
        if name not in ("name", "tool", "fork", "gate") and value and value != _DEFAULTS[name]:
            shown[name] = list(value) if isinstance(value, tuple) else msgspec.to_builtins(value)
    if step.tool is None and step.gate is bool(step.parallel):
        shown["gate"] = step.gate
    if step.branch:
        shown["branch"] = [{"if": arm.condition, "then": arm.then} for arm in step.branch]
    return shown


_DEFAULTS: dict[str, Any] = {name: getattr(Step(name=""), name) for name in Step.__struct_fields__}
