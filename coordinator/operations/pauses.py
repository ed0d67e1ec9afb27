"""Pauses of a project: no new work of it begins."""

from __future__ import annotations

from coordinator.operations.log import Act, ActResult, record
from coordinator.operations.operator import Operator
from coordinator.toolsets.items import pause_claims, resume_claims
from coordinator.toolsets.timestamp import iso


async def pause_project(by: Operator, project: str) -> ActResult:
    """No claim of a project begins until it is resumed. Repeated, it keeps the first pause, which the result tells."""

    async def do() -> ActResult:
        begun, (since, who, why) = await pause_claims(by.store, project, by.settings.events_max, by.id, by.reason)
        facts = {"since": iso(since), "by": who, "reason": why, "begun": begun}
        said = "" if begun else f"it was paused already, since {iso(since)} by {who}"
        return ActResult("allowed", said, facts)

    return await record(by, Act("pause_project", "project", project, project), do)


async def resume_project(by: Operator, project: str) -> ActResult:
    """Claims of a project begin again, those that wait first, in their order."""

    async def do() -> ActResult:
        pause = await resume_claims(by.store, project, by.settings.events_max)
        if pause is None:
            return ActResult("refused", "it is not paused")
        return ActResult("allowed", facts={"since": iso(pause[0]), "by": pause[1], "reason": pause[2]})

    return await record(by, Act("resume_project", "project", project, project), do)
