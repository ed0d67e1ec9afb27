"""What operators do that is no tool: drains, claims ended in place of their holders, retries and pauses of flows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
import structlog
from msgspec import Meta

from coordinator.console.large import untyped
from coordinator.errors import ToolFailure, invalid
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.drains import FLEET_SCOPE, Drains, host_scope, process_scope
from coordinator.store.operator_actions import Intent, note_action, settle_action
from coordinator.toolsets.actor import MAX_ID, ActorResolver, CallerActor, attribution
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.agent_drains import begin_drain, drain_name, end_drain
from coordinator.toolsets.items.store.end_claim import ClaimEnder
from coordinator.toolsets.request_id import keyed

_log = structlog.get_logger(__name__)


class Asked(NamedTuple):
    """An operation by a person who may do it."""

    who: Caller
    intent: Intent

    @property
    def project(self) -> str:
        """Empty: it is about the fleet."""
        return self.intent.project

    @property
    def reason(self) -> str:
        """Why they do it."""
        return self.intent.reason

    @property
    def request(self) -> str:
        """Names the click."""
        return self.intent.request


class Acted(NamedTuple):
    """What became of an operation."""

    problem: str = ""
    """Why nothing was done; empty: it was."""
    result: Mapping[str, Any] = {}


class _Arguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    @property
    def target(self) -> str:
        """What it is about, for the record: the first of them."""
        return str(getattr(self, self.__struct_fields__[0]))


class OfScope(_Arguments):
    """Processes: ``fleet``, ``host:<name>`` or ``process:<host>/<slot>``."""

    scope: Annotated[str, Meta(max_length=600)]
    typed: Annotated[str, Meta(max_length=600)] = ""
    """What the person typed, so that nobody drains the fleet by mistake."""


class OfAgent(_Arguments):
    """Agents of a name."""

    name: Annotated[str, Meta(max_length=MAX_ID + 1)]


class OfClaim(_Arguments):
    """The claim on an item."""

    item_id: Annotated[str, Meta(max_length=36)]
    fence: int = 0
    """Only the claim with this fence; 0: any."""
    failed: bool = False
    """Whether it counts as a failed attempt."""


class OfFlow(_Arguments):
    """A flow."""

    id: int


class Operator:
    """Does them, in one process.

    Args:
        resolve: says how a person is recorded.
    """

    def __init__(self, settings: Settings, store: Store, resolve: ActorResolver) -> None:
        self._settings = settings
        self._store = store
        self._resolve = resolve

    def configure(self, settings: Settings) -> None:
        """Takes over reloaded settings."""
        self._settings = settings

    async def act(
        self, name: str, who: Caller, project: str, given: Mapping[str, Any], reason: str, request: str
    ) -> Acted:
        """Does one.

        Args:
            name: a key of ``OPERATIONS``.
            given: its arguments.
            request: names this click; a repeated one has no second effect.

        Raises:
            ToolFailure: an argument is malformed, there is no such thing, or the store does not answer.
        """
        operation = OPERATIONS[name]
        if operation.of_project != bool(project):
            raise invalid("project", "this is about one project" if operation.of_project else "this is about the fleet")
        try:
            arguments = msgspec.convert(given, operation.arguments)
        except msgspec.ValidationError as error:
            raise invalid("arguments", str(error)) from None
        intent = Intent(name, who.id, project, arguments.target, reason, request)
        note = await note_action(self._store, intent) if project else None  # those of the fleet are in the same step
        done: bool | None = None
        try:
            acted = await operation.act(self, Asked(who, intent), arguments)
            done = not acted.problem
        except ToolFailure as failure:
            done = False if failure.kind == "permanent" else None
            raise
        finally:
            _log.warning(
                "an operator has acted", action=name, actor=who.id, project=project, target=intent.target,
                reason=reason, done=done,
            )  # fmt: skip
            if note is not None and done is not None:
                await settle_action(self._store, note, intent, done=done)
        return acted

    async def drain(self, asked: Asked, of: OfScope) -> Acted:
        """Processes take no new work."""
        kind, _, rest = of.scope.partition(":")
        host, _, slot = rest.partition("/")
        if kind == "host":
            scope = host_scope(host)
        elif kind == "process":
            scope = process_scope(host, slot)
        elif of.scope == FLEET_SCOPE:
            if problem := untyped(of.typed, FLEET_SCOPE, "all processes"):
                return Acted(problem)
            scope = FLEET_SCOPE
        else:
            raise invalid("scope", "must be fleet, host:<name> or process:<host>/<slot>")
        drains = Drains(self._store)
        if scope != FLEET_SCOPE:
            slots = (await drains.processes()).get(host)
            if slots is None or (slot and slot not in slots):
                return Acted(f"no such process runs: {rest}")
        return Acted(result={"drained": sorted(await drains.begin(scope, asked.intent))})

    async def end_drain(self, asked: Asked, of: OfScope) -> Acted:
        """They take new work again."""
        return Acted(result={"drained": sorted(await Drains(self._store).end(of.scope, asked.intent))})

    async def drain_agents(self, asked: Asked, of: OfAgent) -> Acted:
        """Agents of a name get no more claims."""
        _, answered = await begin_drain(self._store, asked.project, self._settings.events_max, drain_name(of.name))
        return Acted(result={"answered": answered})

    async def end_drain_agents(self, asked: Asked, of: OfAgent) -> Acted:
        """They may claim again."""
        ended, _ = await end_drain(self._store, asked.project, self._settings.events_max, drain_name(of.name))
        return Acted("" if ended else "they are not drained (any more)")

    async def end_claim(self, asked: Asked, of: OfClaim) -> Acted:
        """The claim on an item ends in place of its holder."""
        by = await self._resolve(CallerActor(asked.who.id, asked.who.kind))
        ender = ClaimEnder(self._store, self._settings, SchemaSource(schema_config(self._settings)))
        item = await ender.resolve_one(asked.project, of.item_id, "itemId")
        told = dashed(item), of.fence, of.failed
        request = keyed(by.id, asked.request or None, "end_claim", *told, asked.reason)
        ended = await ender.end_claim(
            asked.project,
            request,
            item,
            attribution(by),
            asked.reason,
            kind=asked.who.kind,
            failed=of.failed,
            fence=of.fence,
        )
        if ended.outcome == "not_found":
            raise ToolFailure("RESOURCE_NOT_FOUND", "itemId: no such item")
        problem = {
            "not_claimed": "nobody holds it any more",
            "stale_fence": f"that claim is over; {ended.agent} holds it now",
        }.get(ended.outcome, "")
        return Acted(problem, {"agent": ended.agent, "fenceToken": ended.fence})

    async def retry_flow(self, asked: Asked, of: OfFlow) -> Acted:
        """The failed and cancelled steps of a flow run again."""
        request = keyed(asked.who.id, asked.request or None, "retry_flow", of.id)
        found = await self._flows().retry(asked.project, request, of.id, asked.who.id, asked.reason)
        steps, status = _known(found)
        problem = "" if steps else f"it is {status}: it has no failed or cancelled steps to run again"
        return Acted(problem, {"steps": steps})

    async def pause_flow(self, asked: Asked, of: OfFlow) -> Acted:
        """No further step of a flow begins."""
        return await self._pause(asked, of, resume=False)

    async def resume_flow(self, asked: Asked, of: OfFlow) -> Acted:
        """They begin again."""
        return await self._pause(asked, of, resume=True)

    async def _pause(self, asked: Asked, of: OfFlow, *, resume: bool) -> Acted:
        request = keyed(asked.who.id, asked.request or None, "resume_flow" if resume else "pause_flow", of.id)
        found = await self._flows().pause(asked.project, request, of.id, asked.who.id, asked.reason, resume=resume)
        done, status = _known(found)
        rule = "only a paused flow can be resumed" if resume else "only a running flow can be paused"
        return Acted("" if done else f"it is {status}: {rule}")

    def _flows(self) -> FlowStore:
        return FlowStore(self._store, self._settings)


def _known(found: tuple[int, str] | None) -> tuple[int, str]:
    if found is None:
        raise ToolFailure("RESOURCE_NOT_FOUND", "id: no such flow")
    return found


class Operation(NamedTuple):
    """One of them."""

    arguments: type[_Arguments]
    act: Callable[[Operator, Asked, Any], Awaitable[Acted]]
    of_project: bool = True


OPERATIONS: Mapping[str, Operation] = {
    "drain": Operation(OfScope, Operator.drain, of_project=False),
    "end_drain": Operation(OfScope, Operator.end_drain, of_project=False),
    "drain_agents": Operation(OfAgent, Operator.drain_agents),
    "end_drain_agents": Operation(OfAgent, Operator.end_drain_agents),
    "end_claim": Operation(OfClaim, Operator.end_claim),
    "retry_flow": Operation(OfFlow, Operator.retry_flow),
    "pause_flow": Operation(OfFlow, Operator.pause_flow),
    "resume_flow": Operation(OfFlow, Operator.resume_flow),
}
"""By name."""
