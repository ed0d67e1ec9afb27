"""Drains: processes that take no new work, and agents that claim no more."""

from __future__ import annotations

from coordinator.errors import invalid
from coordinator.operations.log import Act, ActResult, in_step, record
from coordinator.operations.operator import Operator
from coordinator.store.fleet.drains import FLEET_SCOPE, Drains, host_scope, process_scope
from coordinator.toolsets.items import begin_drain, drain_name, end_drain

_BEFORE, _NOT_BEFORE = "it was drained already", "it was not drained"


async def drain_processes(by: Operator, scope: str, *, end: bool = False) -> ActResult:
    """Processes take no new work until that is ended; or it is. ``drained`` are all scopes in force."""
    drains, unchanged = Drains(by.store), _NOT_BEFORE if end else _BEFORE
    if not end:
        await _check_runs(drains, scope)
    act = Act("end_drain" if end else "drain", "processes", scope)

    async def do() -> ActResult:
        changed, scopes = await (drains.end if end else drains.begin)(scope, in_step(by, act, unchanged))
        return ActResult("allowed", "" if changed else unchanged, {"drained": sorted(scopes)})

    return await record(by, act, do, recorded=True)


async def _check_runs(drains: Drains, scope: str) -> None:
    kind, _, rest = scope.partition(":")
    host, _, slot = rest.partition("/")
    if scope == FLEET_SCOPE:
        return
    if scope not in (f"host:{host}", f"process:{host}/{slot}"):
        raise invalid("scope", "must be fleet, host:<name> or process:<host>/<slot>")
    _ = process_scope(host, slot) if kind == "process" else host_scope(host)
    running = await drains.processes()
    if host not in running:
        others = f"processes run on {', '.join(running)}" if running else "none has registered yet, try again"
        raise invalid("host", f"no process runs on {host}; {others}")
    if slot and slot not in running[host]:
        raise invalid("process", f"{host} has no process {slot}; it has {', '.join(running[host])}")


async def drain_agents(by: Operator, project: str, name: str, *, end: bool = False) -> ActResult:
    """Agents of a name get no more claims until that is ended, and ``answered`` of their claims that wait; or it is
    ended, and ``drained`` are those that still get none.

    Raises:
        ToolFailure: the name is malformed, or there are too many drains; and as ``Store.run`` says.
    """
    name, most = drain_name(name), by.settings.events_max

    async def do() -> ActResult:
        if not end:
            begun, answered = await begin_drain(by.store, project, most, name)
            return ActResult("allowed", "" if begun else _BEFORE, {"answered": answered, "begun": begun})
        ended, left = await end_drain(by.store, project, most, name)
        facts = {"ended": ended, "drained": left}
        return ActResult("allowed", facts=facts) if ended else ActResult("refused", _NOT_BEFORE, facts)

    return await record(by, Act("end_drain_agents" if end else "drain_agents", "agent", name, project), do)
