"""Guards: conditions that must hold before a transition is taken or a branch is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from coordinator.settings.sections.gateway.executor import Guard, Required
from coordinator.toolsets.caller import Caller, Credential
from coordinator.toolsets.gateway.rules.expressions import depends_on_arguments, holds
from coordinator.toolsets.gateway.rules.scope import Scope

ANONYMOUS = "anonymous"
HUMAN, SYSTEM = "human", "system"
_EVERYTHING = "*"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated identity of the caller."""

    id: str = ANONYMOUS
    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    kind: str = "external"
    credential: Credential | None = None

    @classmethod
    def of(cls, caller: Caller | None) -> Principal:
        """The principal of a call. An unknown caller has neither roles nor permissions."""
        if caller is None:
            return cls()
        return cls(
            id=caller.id,
            roles=tuple(sorted(caller.roles)),
            permissions=tuple(sorted(caller.permissions)),
            kind=caller.kind,
            credential=caller.credential,
        )

    @property
    def caller(self) -> Caller | None:
        """The principal as a caller of the coordinator's own tools; None if anonymous."""
        if self.id == ANONYMOUS and not (self.roles or self.permissions or self.credential):
            return None
        return Caller(self.id, self.kind, frozenset(self.roles), frozenset(self.permissions), self.credential)


class Circumstances(NamedTuple):
    """The input of guards."""

    principal: Principal
    scope: Scope
    evidence: Mapping[str, int] = {}
    """How much evidence of each kind the instance has."""


Report = Callable[[str, bool], None]
"""Called with a guard's kind and whether it holds."""


def all_hold(guards: Sequence[Guard], at: Circumstances, report: Report = lambda kind, held: None) -> bool:
    """Whether all guards hold. Evaluation stops at the first that does not."""
    return failing(guards, at, report) is None


def failing(guards: Sequence[Guard], at: Circumstances, report: Report = lambda kind, held: None) -> Guard | None:
    """The first guard that does not hold; None if all hold."""
    for guard in guards:
        held = evaluate(guard, at)
        report(guard.kind, held)
        if not held:
            return guard
    return None


def evaluate(guard: Guard, at: Circumstances) -> bool:
    if guard.kind == "permission":
        return guard.permission in at.principal.permissions or _EVERYTHING in at.principal.permissions
    if guard.kind == "role":
        return guard.role in at.principal.roles
    if guard.kind in ("expr", "jsonpath"):
        return holds(guard.expr, at.scope)
    if guard.kind == "evidence":
        return all(at.evidence.get(kind, 0) >= count for kind, count in map(_required, guard.requires))
    if guard.kind in ("allOf", "all_of"):
        return all(evaluate(inner, at) for inner in guard.guards)
    if guard.kind in ("anyOf", "any_of"):
        return any(evaluate(inner, at) for inner in guard.guards)
    return guard.guard is not None and not evaluate(guard.guard, at)


def refused(guards: Sequence[Guard], at: Circumstances) -> bool:
    """Whether some guard fails for any arguments."""
    return any(_verdict(guard, at) is False for guard in guards)


def sentence(guard: Guard) -> str:
    """That a guard does not hold, for people."""
    if guard.kind == "role":
        return f"The role {guard.role!r} is required."
    if guard.kind == "permission":
        return f"The permission {guard.permission!r} is required."
    if guard.kind == "evidence":
        wanted = ", ".join(f"{count} of {kind!r}" for kind, count in map(_required, guard.requires))
        return f"Evidence is required: {wanted}."
    return "A condition of the transition does not hold."


def _verdict(guard: Guard, at: Circumstances) -> bool | None:
    """Whether one guard holds; None if that depends on the arguments."""
    if guard.kind in ("expr", "jsonpath"):
        return None if depends_on_arguments(guard.expr) else holds(guard.expr, at.scope)
    if guard.kind in ("allOf", "all_of"):
        verdicts = [_verdict(inner, at) for inner in guard.guards]
        return False if False in verdicts else None if None in verdicts else True
    if guard.kind in ("anyOf", "any_of"):
        verdicts = [_verdict(inner, at) for inner in guard.guards]
        return True if True in verdicts else None if None in verdicts else False
    if guard.kind == "not" and guard.guard is not None:
        verdict = _verdict(guard.guard, at)
        return None if verdict is None else not verdict
    return evaluate(guard, at)


def _required(entry: Required | str) -> tuple[str, int]:
    return (entry, 1) if isinstance(entry, str) else (entry.kind, entry.count)
