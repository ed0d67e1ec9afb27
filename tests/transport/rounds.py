"""Clients that can be asked back, of front-ends with the product's own toolsets over one store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services, Toolset
from coordinator.transport import FrontEnd
from coordinator.transport.http.parts import Parts
from coordinator.transport.rounds.sealing import Seals
from tests.authentication.support import Authenticators, Tokens
from tests.support.wait import wait_until
from tests.transport.rig import call, meta, modern, send

Json = dict[str, Any]
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
FORM: Json = {"elicitation": {}}
"""Capabilities of a client that shows forms."""
TASKS: Json = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
"""Those of a client that asks later for results."""


class Process(NamedTuple):
    """A front-end as a process has it: with toolsets of its own."""

    app: FrontEnd
    toolsets: dict[str, Toolset]

    async def close(self) -> None:
        await self.app.stop()
        for toolset in self.toolsets.values():
            await toolset.service.stop()


class Site:
    """Front-ends over one store and one token file, and clients of them.

    Args:
        settings: of all of them; the section ``auth`` is added.
    """

    def __init__(self, folder: Path, store: Store, project: str, settings: Settings) -> None:
        self._store = store
        self._project = project
        self.tokens = Tokens(folder / "tokens.yaml")
        self._settings = msgspec.structs.replace(settings, auth=Auth(tokens=str(self.tokens.path), mode="required"))
        self._authenticators = Authenticators()
        self.authenticators = self._authenticators.made
        """One for each process."""
        self._processes: list[Process] = []

    def process(self, **changed: Any) -> FrontEnd:
        """Another front-end, possibly with some settings changed."""
        settings = msgspec.structs.replace(self._settings, **changed)
        reader = FeedReader(self._store)
        toolsets = load_toolsets(Services(settings, self._store, trust_self_reported, Waits(reader)))
        app = FrontEnd(
            Parts(
                settings,
                self._store,
                toolsets,
                authenticator=self._authenticators.make(settings),
                reader=reader,
                seals=Seals(self._store, settings),
            )
        )
        self._processes.append(Process(app, toolsets))
        return app

    def client(self, id: str, toolset: str, *roles: str, can: Json | None = None, **token: Any) -> Client:
        """A client with a token of its own."""
        secret = self.tokens.add(id, kind="user", roles=roles, permissions=token.pop("permissions", ("*",)), **token)
        return Client(f"/p/{self._project}/mcp/{toolset}", secret, FORM if can is None else can)

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._processes))
        await self._authenticators.close()


class Client(NamedTuple):
    """A client with a token, and with declared capabilities."""

    path: str
    token: str
    can: Json

    def able(self, can: Json) -> Client:
        """The same with other capabilities."""
        return self._replace(can=can)

    async def request(self, app: FrontEnd, method: str, params: Json, **headers: str | None) -> tuple[int, Json]:
        """Status and body of the answer to a request."""
        given = {**params, "_meta": {**meta(), CAPABILITIES: self.can}}
        head, body = modern(method, given, **headers)
        answer = await send(app, "POST", self.path, [*head, ("authorization", f"Bearer {self.token}")], body)
        text = answer.plain
        if answer.content_type == "text/event-stream":
            (text,) = (line[5:] for line in text.splitlines() if line.startswith(b"data:") and line[5:].strip())
        found: Json = msgspec.json.decode(text)
        return answer.status, found

    async def __call__(self, app: FrontEnd, tool: str, arguments: Json, **more: Any) -> Json:
        """The result of a call."""
        status, body = await self.request(app, "tools/call", call(tool, arguments, **more))
        assert status == 200, body
        result: Json = body["result"]
        return result

    async def task(self, app: FrontEnd, method: str, id: str, **params: Any) -> Json:
        """The result of a request about a task."""
        status, body = await self.request(app, f"tasks/{method}", {"taskId": id, **params}, mcp_name=id)
        assert status == 200, body
        result: Json = body["result"]
        assert result.pop("resultType") == "complete"
        assert result.pop("_meta").keys() == {"io.modelcontextprotocol/serverInfo"}
        return result

    async def done(self, app: FrontEnd, id: str) -> Json:
        """A task that has ended."""

        async def look() -> Json:
            found = await self.task(app, "get", id)
            return {} if found["status"] == "working" else found

        return await wait_until(look, what="the end of the task")

    async def refused(self, app: FrontEnd, tool: str, arguments: Json, **more: Any) -> Json:
        """The JSON-RPC error of a call."""
        _, body = await self.request(app, "tools/call", call(tool, arguments, **more))
        error: Json = body["error"]
        return error


def the_form(asked: Json) -> Json:
    """The parameters of the question in a result."""
    assert asked["resultType"] == "input_required", asked
    (request,) = asked["inputRequests"].values()
    assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
    form: Json = request["params"]
    return form


def accepting(asked: Json, **content: Any) -> Json:
    """What goes with the next request after a question, if the person has filled in the form.

    Args:
        asked: the result or the task with the question.
    """
    return _with("accept", asked, content)


def refusing(asked: Json, action: str = "decline", **content: Any) -> Json:
    """The same, if the person has not."""
    return _with(action, asked, content)


def _with(action: str, asked: Json, content: Json) -> Json:
    (key,) = asked["inputRequests"]
    state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
    return {"inputResponses": {key: {"action": action, "content": content}}, **state}
