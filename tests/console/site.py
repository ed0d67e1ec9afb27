"""What people change, without HTTP and browser."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from coordinator.console.acts.actions import Actions
from coordinator.console.acts.rate import Rate
from coordinator.console.viewer import Viewer
from coordinator.identity.actors.callers import trusting_callers
from coordinator.identity.callers.permissions import OPERATE
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.transport.calls import Calls

Json = dict[str, Any]
SETTINGS = Settings(request_deadline_ms=120_000)


def person(name: str = "ada", *permissions: str, kind: str = "user", roles: tuple[str, ...] = ("human",)) -> Viewer:
    """A viewer; with all permissions unless some are named."""
    return Viewer(Caller(name, kind, frozenset(roles), frozenset(permissions or ("*", OPERATE))))


ADA = person()


class Site:
    """The actions of one process, in one project; nobody is too fast."""

    def __init__(self, store: Store, project: str, settings: Settings = SETTINGS) -> None:
        services = Services(settings, store, trusting_callers(trust_self_reported))
        calls = Calls(settings.request_deadline_ms)
        self.toolsets = load_toolsets(services)
        self._actions = Actions(self.toolsets, calls, settings, services.resolve_actor, store, Rate(count().__next__))
        self.project = project
        self.store = store

    async def __call__(self, path: str, arguments: object, who: Viewer = ADA, project: str | None = None) -> Json:
        body = arguments if isinstance(arguments, bytes) else msgspec.json.encode(arguments)
        answer = await self._actions.answer(who, self.project if project is None else project, path, body)
        assert answer.status == 200
        told: Json = msgspec.json.decode(answer.body)
        return told

    async def create(self, title: str = "t", **more: object) -> str:
        created = await self("call/items/manage_items", {"operation": "create", "items": [{"title": title, **more}]})
        return str(created["result"]["items"][0]["id"])

    async def advance(self, item: str, trigger: str, who: Viewer = ADA, **more: object) -> Json:
        change = {"itemId": item, "trigger": trigger}
        return await self("call/items/advance_item", {"transitions": [change], **more}, who)
