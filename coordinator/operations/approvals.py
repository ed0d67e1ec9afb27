"""Answers approvals of the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.errors import invalid
from coordinator.operations.flows import known
from coordinator.operations.log import Act, ActResult, record
from coordinator.operations.operator import Operator
from coordinator.toolsets.gateway import HUMAN, Answered, Decisions, Listener, Principal, Rejected


async def answer_approval(
    by: Operator, project: str, id: str, transition: str, arguments: dict[str, Any], name: str, roles: Sequence[str]
) -> ActResult:
    """A person takes a transition that an approval allows; ends when the operation has.

    Args:
        arguments: those of the transition.
        name: who answers, for the instance; empty: the operator.
        roles: that they have, beside ``human``.

    Returns:
        With ``workflow``, and its ``state`` and ``version``.

    Raises:
        ToolFailure: there is no such approval, or it has no such answer; and as ``Store.run`` says.
    """
    who, listener = Principal(id=name or by.id, roles=(HUMAN, *roles), kind="user"), Listener(by.store)
    decisions = Decisions.of(by.store, by.settings, listener)
    request = by.key("submit_transition", id, transition, arguments)
    try:
        answered, asked = known(await decisions.approval(project, id, who), "approval", id, project)
        if asked is not None and (problem := asked.problem(transition)):
            raise invalid("transition", problem)

        async def do() -> ActResult:
            if asked is None:
                return _closed(answered)
            try:
                after = await decisions.answer(project, who, asked, transition, arguments, request)
            except Rejected as rejected:
                again = await decisions.approval(project, id, who)
                if again is not None and again[1] is None:
                    return _closed(again[0])
                return ActResult("refused", f"{rejected.code}: {rejected.message}", code=rejected.code)
            ending, at = after.ending, after.instance
            if ending is not None and ending.error is not None:
                return ActResult("failed", ending.error.message, code=ending.error.code)
            facts = {"state": at.state if ending is None else ending.state, "version": at.version}
            return ActResult("allowed", facts={"workflow": answered.workflow, **facts})

        act = Act("submit_transition", "instance", answered.workflow, project, transition)
        return await record(by, act, do)
    finally:
        await listener.close()


def _closed(answered: Answered) -> ActResult:
    how = f"by {answered.by} with {answered.answer}" if answered.answer else "without an answer"
    return ActResult("refused", f"it is {answered.status} already, {how}")
