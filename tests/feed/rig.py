"""A front-end with all toolsets over a store, served on a port, and clients of its feed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn

from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.overload import Admission
from coordinator.processes.operators_port import server_config
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.store.agents.tokens import TokenStore
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services, Toolset
from coordinator.transport import FrontEnd, http_protocol
from coordinator.transport.http.delegations import Delegations
from coordinator.transport.http.parts import Parts
from coordinator.transport.projects import Projects
from coordinator.transport.rounds.sealing import Seals
from tests.authentication.support import Authenticators
from tests.support.wait import wait_until

Json = dict[str, Any]
CONTROL = ("ready", "heartbeat", "gap")


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@dataclass
class Frame:
    """A frame of an event stream."""

    event: str = "message"
    id: str = ""
    data: Json = field(default_factory=dict)
    retry: str = ""
    comment: str = ""

    @property
    def name(self) -> str:
        """The kind of the event; of other frames what they are."""
        return str(self.data["name"]) if self.event == "message" and self.data else self.event


class Stream:
    """An open event stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.frames: list[Frame] = []

    async def next(self) -> Frame:
        """The next frame. Raises StopAsyncIteration at the end."""
        frame, some = Frame(), False
        async for line in self._lines:
            if not line:
                if some:
                    self.frames.append(frame)
                    return frame
                continue
            some = True
            name, _, value = line.partition(": ")
            if name == "":
                frame.comment = value
            elif name == "data":
                frame.data = json.loads(value)
            elif name == "event":
                frame.event = value
            elif name == "id":
                frame.id = value
            else:
                frame.retry = value
        raise StopAsyncIteration

    async def events(self, count: int, seconds: float = 60.0) -> list[Json]:
        """The next so many events; other frames are left out."""
        found: list[Json] = []
        async with asyncio.timeout(seconds):
            while len(found) < count:
                frame = await self.next()
                if frame.event == "message" and frame.data:
                    assert frame.id == frame.data["cursor"]
                    found.append(frame.data)
        return found

    async def until(self, name: str, seconds: float = 60.0) -> Frame:
        """The next frame with this name; those before it are left out."""
        async with asyncio.timeout(seconds):
            while (frame := await self.next()).name != name:
                pass
        return frame

    async def rest(self, seconds: float = 60.0) -> list[Frame]:
        """What comes until the server ends the stream."""
        found = []
        async with asyncio.timeout(seconds):
            while True:
                try:
                    found.append(await self.next())
                except StopAsyncIteration:
                    return found


class Front:
    """A running front-end."""

    def __init__(self, app: FrontEnd, reader: FeedReader, room: Waits, admission: Admission, port: int) -> None:
        self.app = app
        self.room = room
        self.admission = admission
        assert app.feed is not None
        self.feed = app.feed
        self.reader = reader
        self.port = port
        self.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False)

    @contextlib.asynccontextmanager
    async def stream(self, project: str, headers: dict[str, str] | None = None, **query: Any) -> AsyncIterator[Stream]:
        """An event stream, after its ``ready``."""
        given = {"accept": "text/event-stream", **(headers or {})}
        async with self.http.stream("GET", f"/feed/{project}", params=query, headers=given) as response:
            if response.status_code != 200:
                await response.aread()
            assert response.status_code == 200, response.text
            stream = Stream(response)
            await stream.next()
            yield stream

    async def get(self, project: str, headers: dict[str, str] | None = None, **query: Any) -> httpx2.Response:
        """An answer in JSON, or a refusal."""
        return await self.http.get(
            f"/feed/{project}", params=query, headers={"accept": "application/json", **(headers or {})}
        )

    async def poll(self, project: str, **query: Any) -> Json:
        """An answer in JSON."""
        response = await self.get(project, **query)
        assert response.status_code == 200, response.text
        answer: Json = response.json()
        return answer


@contextlib.asynccontextmanager
async def serving(
    store: Store,
    settings: Settings | None = None,
    authenticator: Authenticator | None = None,
    toolsets: dict[str, Toolset] | None = None,
) -> AsyncIterator[Front]:
    """A front-end over this store."""
    settings = settings or Settings(request_deadline_ms=60_000)
    reader = FeedReader(store)
    room = Waits(reader)
    authenticators = Authenticators()
    authenticator = authenticator or authenticators.make(settings)
    seals = Seals(store, settings)
    delegations = Delegations(TokenStore(store), seals, authenticator.still)
    services = Services(settings, store, trust_self_reported, room, delegations.make)
    toolsets = toolsets or load_toolsets(services)
    admission = Admission(settings.overload, asyncio.get_running_loop().time)
    app = FrontEnd(
        Parts(
            settings,
            store,
            toolsets,
            authenticator=authenticator,
            admission=admission,
            reader=reader,
            seals=seals,
            delegations=delegations,
            hints=Projects(store),
        )
    )
    sock = socket.create_server(("127.0.0.1", 0))
    config = server_config(
        app, http_protocol(app, settings.max_header_bytes), lifespan="on", timeout_graceful_shutdown=2
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve([sock]))
    front = Front(app, reader, room, admission, sock.getsockname()[1])
    try:
        await wait_until(lambda: server.started)
        yield front
    finally:
        await front.http.aclose()
        server.should_exit = True
        await running
        for toolset in toolsets.values():
            await toolset.service.stop()
        await authenticators.close()
        sock.close()
