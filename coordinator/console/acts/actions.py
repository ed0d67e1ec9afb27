"""What people change: calls of the agents' tools, and what operators do that is no tool.

A call of a tool goes the way of all calls, with the signed-in person as its actor: the same rules, gates, fences,
idempotency and records. The page gives each click a ``requestId``, and repeats it when an answer is lost.

The answer is JSON: ``problem``, a sentence if nothing or not all was done, and ``result``, that of the tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import structlog

from coordinator.console.acts.large import untyped_items
from coordinator.console.acts.operate import OPERATIONS, operate
from coordinator.console.acts.rate import Rate
from coordinator.console.answers import PageAnswer, data
from coordinator.console.metrics import ACTIONS
from coordinator.console.viewer import Viewer
from coordinator.errors import ToolFailure, invalid
from coordinator.identity.callers.permissions import OPERATE
from coordinator.operations import MAX_REASON, ActResult, Operator, given_reason, outcome_of, record
from coordinator.operations.calls import CALLS, act_of_call
from coordinator.operations.flows import had_ended
from coordinator.service import Service
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.actor import ActorResolver, CallerActor
from coordinator.toolsets.arguments import decoded
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.gateway import HUMAN
from coordinator.toolsets.request_id import MAX_REQUEST_ID
from coordinator.toolsets.schema import identified_schema
from coordinator.toolsets.tool import Call, Tool, Toolset
from coordinator.transport.calls import Calls, Done

_log = structlog.get_logger(__name__)
_KEEP = ("manage_items", "manage_notes")
"""Tools that can delete what nobody brings back, which they do not here."""
MAX_BODY = 2 * 1024 * 1024
"""Bytes. A note has at most 500,000, each of which JSON may write as several."""
API = "api"
"""Where changes are asked for, below the console or one of its projects."""


class Actions(Service):
    """The changes that people make through one process; ``resolve`` says how a person is recorded."""

    def __init__(
        self,
        toolsets: Mapping[str, Toolset],
        calls: Calls,
        settings: Settings,
        resolve: ActorResolver,
        store: Store,
        rate: Rate | None = None,
    ) -> None:
        self._tools: dict[tuple[str, str], Tool] = {
            (toolset, tool.name): tool
            for toolset, names in CALLS.items()
            if toolset in toolsets
            for tool in (*toolsets[toolset].tools, *toolsets[toolset].people)
            if tool.name in names
        }
        self._calls = calls
        self._settings = settings
        self._resolve = resolve
        self._store = store
        self._rate = rate or Rate()

    def configure(self, settings: Settings) -> None:
        self._settings = settings

    async def answer(self, viewer: Viewer, project: str, path: str, body: bytes) -> PageAnswer:
        """Does what a page of ours asks for: ``call/<toolset>/<tool>`` or ``operate/<operation>``."""
        what, _, name = path.partition("/")
        toolset, _, tool = name.partition("/") if what == "call" else ("", "", name)
        tool_here = self._tools.get((toolset, tool))
        if tool_here is None and (what != "operate" or name not in OPERATIONS):
            raise ToolFailure("RESOURCE_NOT_FOUND", "people cannot do this here")
        outcome = "failed"
        try:
            caller = self._may(viewer, what, toolset)
            self._rate.check(caller.id)
            if tool_here is not None:
                result = await self._call(caller, project or DEFAULT_PROJECT, toolset, tool_here, _arguments(body))
            else:
                result = await self._operate(caller, project, name, _arguments(body))
            outcome = "ok" if result.done else "refused"
        except ToolFailure as failure:
            outcome = "refused" if failure.kind == "permanent" else "failed"
            raise
        finally:
            ACTIONS.labels(tool, outcome).inc()
        answer = {"said" if result.done else "problem": result.said} if result.said else {}
        return data(msgspec.json.encode({**answer, "result": result.facts}))

    def _may(self, viewer: Viewer, what: str, toolset: str) -> Caller:
        """The person, if they may do this. Raises ToolFailure: permission_denied."""
        if viewer.caller is None or not viewer.is_person:
            raise ToolFailure("permission_denied", "only people may change anything here: sign in as one")
        if what == "operate":
            if not viewer.operates:
                raise ToolFailure("permission_denied", f"this needs the permission '{OPERATE}'")
        elif not viewer.changes(toolset):
            raise ToolFailure("permission_denied", f"this needs the permission '{toolset}'")
        elif toolset == "gateway" and HUMAN not in viewer.caller.roles:
            raise ToolFailure("permission_denied", f"this needs the role '{HUMAN}'")
        return viewer.caller

    async def _call(
        self, caller: Caller, project: str, toolset: str, tool: Tool, arguments: Mapping[str, Any]
    ) -> ActResult:
        call_arguments = dict(arguments)
        typed = call_arguments.pop("typed", "")
        meant = decoded(tool, identified_schema(tool.arguments), call_arguments)
        if tool.name in _KEEP and meant.operation.lower() == "delete":  # in any case, as they read it
            raise ToolFailure("permission_denied", "nothing is deleted here")
        if toolset == "items" and (problem := await untyped_items(self._store, project, meant, typed)):
            return ActResult("refused", problem)
        request = structlog.contextvars.get_contextvars().get("request_id", "")

        async def do() -> ActResult:
            return _result(await self._calls.run(tool, Call(project, request, caller), meant, "console"))

        said = next((transition.summary for transition in getattr(meant, "transitions", ())), None) or ""
        by = await self._operator(caller, said[:MAX_REASON], getattr(meant, "request_id", None) or "")
        return await record(by, act_of_call(toolset, tool.name, meant, project), do)

    async def _operate(self, caller: Caller, project: str, name: str, arguments: Mapping[str, Any]) -> ActResult:
        fields = dict(arguments)
        reason, request = fields.pop("reason", None), fields.pop("requestId", "")
        if not isinstance(request, str) or len(request) > MAX_REQUEST_ID:
            raise invalid("requestId", f"must be a text of at most {MAX_REQUEST_ID} characters")
        why = given_reason(reason if isinstance(reason, str) else None, needed=True)
        result = await operate(await self._operator(caller, why, request), name, project, fields)
        record = {"action": name, "actor": caller.id, "project": project, "reason": why, "outcome": result.outcome}
        _log.warning("an operator has acted", **record)
        return result

    async def _operator(self, caller: Caller, reason: str, request: str) -> Operator:
        actor = await self._resolve(CallerActor(caller.id, caller.kind))
        return Operator(self._store, self._settings, actor, "console", reason, request)


def _arguments(body: bytes) -> Mapping[str, Any]:
    try:
        mapping = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        mapping = None
    if not isinstance(mapping, dict):
        raise invalid("body", "must be an object, in JSON")
    return mapping


_ENDED = "already terminal"
"""Why an item of a tree is left as it is that is completed or cancelled with others."""


def _result(done: Done) -> ActResult:
    """What came of a call of a tool. Its sentences may quote items, so the log gets codes and numbers."""
    result = msgspec.json.decode(done.body) if done.body else {}
    facts = msgspec.Raw(done.body or b"{}")
    error = result.get("error") if isinstance(result, dict) else None
    if done.failed and done.code and isinstance(error, dict):
        failure = ToolFailure(done.code, error["message"], retry_after_ms=error.get("retryAfterMs"))
        if failure.kind == "shedding" or failure.code == "permission_denied":
            raise failure
        return ActResult(outcome_of(failure), failure.message, facts, done.code)
    if isinstance(error, dict):
        return ActResult("refused", str(error.get("message", "")), facts, str(error.get("code", "")))
    if done.failed:
        return ActResult("refused", done.text, facts, done.code)
    refused = list(_refused(result)) if isinstance(result, dict) else []
    if not refused:
        return ActResult("allowed", facts=facts)
    many = len(result.get("results") or ()) or len(result.get("failures") or ()) + len(result.get("items") or ())
    if len(refused) == 1 and many <= 1:
        return ActResult("refused", refused[0], facts, "")
    count = f"{len(refused)} of {max(many, len(refused))} refused"
    return ActResult("refused", f"{count}. {refused[0]}", facts, count)


def _refused(result: Mapping[str, Any]) -> Iterator[str]:
    results = result.get("results") or ()
    done = any(result.get("applied") for result in results)
    for part in results:
        if not part.get("applied", True) and not (done and part.get("skippedReason") == _ENDED):
            said = part.get("error") or part.get("skippedReason") or ", ".join(part.get("gateErrors") or ())
            if lacks := [note["key"] for note in part.get("missingNotes") or ()]:
                said = f"required notes are not filled: {', '.join(lacks)}"
            yield str(said or "it was refused")
    for part in result.get("failures") or ():
        yield str(part["error"])
    if result.get("cancelled") is False:
        yield had_ended(result.get("status", ""))
    if result.get("queued") is False:
        yield str(result.get("error") or "it was released already")
    if result.get("deleted") == 0:
        yield str(result.get("message") or "there was nothing to remove: it was removed before")
