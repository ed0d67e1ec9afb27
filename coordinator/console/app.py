"""Routes the requests below ``/console``."""

from __future__ import annotations

import asyncio
import functools
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import structlog

from coordinator.console.acts.actions import API, MAX_BODY, Actions
from coordinator.console.answers import HEADERS, PageAnswer, data, page, redirect, send_answer
from coordinator.console.assets import Assets
from coordinator.console.frame import PLAIN, frame, modules_of, problem
from coordinator.console.graphs.layouts import Layouts
from coordinator.console.guard import check_site, check_write
from coordinator.console.live import Live
from coordinator.console.reads import Reads
from coordinator.console.signin.oauth import OAuthClient
from coordinator.console.signin.page import SignIn, signin_path
from coordinator.console.signin.sessions import Sessions
from coordinator.console.signin.tickets import PATH as SIGN_IN
from coordinator.console.view import Rendered, Visit, path_of
from coordinator.console.viewer import Viewer
from coordinator.console.views import NAVIGATION, VIEWS, needs
from coordinator.errors import ToolFailure, invalid
from coordinator.feed import FeedReader
from coordinator.service import Service
from coordinator.transport.endpoints import Endpoints
from coordinator.transport.http.bodies import Bodies
from coordinator.transport.http.replies import Header, Receive, Scope, Send
from coordinator.transport.http.welcome import Place, Welcome

_log = structlog.get_logger(__name__)

ROOT = "/console"
_PATH = re.compile(
    r"/console(?:/p/(?P<project>[^/]+))?/(?P<view>[a-z]+)(?:/(?P<id>[^~].*?))?(?:/~(?P<region>[a-z_]+))?\Z", re.S
)
_LONGEST_QUERY = 500
"""Characters of a parameter."""
_LONGEST_QUERIES, _MOST_PARAMETERS = 8_192, 32
_IMMUTABLE: Header = (b"cache-control", b"public, max-age=31536000, immutable")
_STATUS = {
    "actor_quota": 429,
    "permission_denied": 403,
    "unauthenticated": 401,
    "RESOURCE_NOT_FOUND": 404,
    "NOT_FOUND": 404,
}


@functools.cache
def assets() -> Assets:
    """The files of all pages."""
    return Assets([PLAIN, modules_of(), *map(modules_of, VIEWS.values())])


class Console(Service):
    """The console of one front-end process.

    Args:
        welcome: knows where clients find this server.
        oauth: lets visitors sign in at the authorization server; None: they cannot.
        port: that of clients, if the console is on another one.
    """

    headers = HEADERS

    def __init__(
        self,
        reads: Reads,
        feed: FeedReader,
        sessions: Sessions,
        endpoints: Endpoints,
        actions: Actions,
        welcome: Welcome,
        oauth: OAuthClient | None = None,
        port: int = 0,
    ) -> None:
        self._reads = reads
        self._live = Live(feed, lambda: reads.store.command("PING"))
        self._sessions = sessions
        self._endpoints = endpoints
        self._actions = actions
        self._welcome = welcome
        self._port = port
        self._bodies = Bodies(MAX_BODY)
        self._assets = assets()
        self._sign_in = SignIn(sessions, oauth, self._assets)
        self._layouts = Layouts()

    def hold(self, held: bool, seconds: float) -> None:
        """Ends all streams, spread over some seconds, because this process takes no new work; or serves them again."""
        self._live.hold(held, seconds)

    def recheck(self) -> None:
        """Ends the streams of visitors whose rights have changed."""
        self._live.recheck_all()

    async def stop(self, deadline: float = 0.0) -> None:
        await asyncio.gather(self._live.stop(), self._layouts.stop())

    async def serve(self, scope: Scope, receive: Receive, send: Send, head: Mapping[bytes, bytes]) -> None:
        """Answers a request whose head was checked."""
        asset = self._assets.find(scope["path"])
        if asset is not None:
            answer = PageAnswer(200, asset.type, asset.body, (_IMMUTABLE,), asset.compressed)
            await send_answer(send, answer, scope["headers"])
            return
        viewer: Viewer | None = None
        try:
            viewer = await self._sessions.viewer(head)
            answer_or_none = await self._answer(scope, receive, send, head, viewer)
        except ToolFailure as failure:
            answer_or_none = self._failed(scope, head, failure, viewer)
        if answer_or_none is not None:
            await send_answer(send, answer_or_none, scope["headers"])

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, head: Mapping[bytes, bytes], viewer: Viewer | None
    ) -> PageAnswer | None:
        """The answer; None: it was sent already."""
        path, method = scope["path"], scope["method"]
        check_site(method, head)
        if path == SIGN_IN or path.startswith(SIGN_IN + "/"):
            return await self._sign_in.answer(scope, receive, head, viewer)
        if path.rstrip("/") == ROOT:
            visitor = viewer or Viewer()
            first = next((view for view, _ in NAVIGATION if view.open_to(visitor)), NAVIGATION[0][0])
            in_project = visitor.first_project(self._endpoints.projects) if first.of_project else ""
            return redirect(path_of(first.name, in_project))
        if viewer is None:
            raise ToolFailure("unauthenticated", "sign in to see the fleet")
        match = _PATH.match(path)
        if match is None:
            raise ToolFailure("RESOURCE_NOT_FOUND", "there is no such page")
        project = match["project"] or ""
        if project:
            self._check_project(project, viewer)
        if match["view"] == API:
            return await self._change(scope, receive, head, viewer, project, match["id"] or "")
        if method not in ("GET", "HEAD"):
            return data(b"", 405, (b"allow", b"GET, HEAD"))
        query = _query(scope["query_string"])
        if project and match["view"] == "live":
            after = head.get(b"last-event-id", b"").decode("latin-1") or query.get("after", "")
            await self._live.serve(scope, send, project, after, viewer, lambda: self._sessions.viewer(head))
            return None
        view = VIEWS.get(match["view"])
        if view is None or view.of_project != bool(project) or bool((match["id"] or "").strip()) != view.takes_id:
            raise ToolFailure("RESOURCE_NOT_FOUND", "there is no such page")
        if not view.open_to(viewer):
            raise ToolFailure("permission_denied", view.refusal)
        known = {key: query[key] for key in (*view.query, "offset") if key in query}
        places, listed = self._places(head), self._endpoints.projects
        visit = Visit(viewer, view, project, match["id"] or "", known, self._reads, self._layouts, places, listed)
        if match["region"] is not None:
            if match["region"] not in view.regions:
                raise ToolFailure("RESOURCE_NOT_FOUND", "there is no such part of a page")
            return await self._region(visit, match["region"], head)
        return await self._page(visit)

    async def _change(
        self, scope: Scope, receive: Receive, head: Mapping[bytes, bytes], viewer: Viewer, project: str, path: str
    ) -> PageAnswer:
        if scope["method"] != "POST":
            return data(b"", 405, (b"allow", b"POST"))
        check_write(head)
        if not project and viewer.projects is not None:
            raise ToolFailure("permission_denied", "you may act in some projects only: name one of them")
        return await self._actions.answer(viewer, project, path, await self._bodies.read(receive))

    async def _page(self, visit: Visit) -> PageAnswer:
        # The position is read first, so that what happens while the page is made is told to it.
        position = await self._live.position(visit.project) if visit.project else ""
        visit = replace(visit, at=position)
        names = list(visit.view.regions)
        counting = [replace(visit, view=needs.VIEW, id="", query={})] if position else []
        wanted = [*((visit, name) for name in names), *((other, needs.COUNT) for other in counting)]
        parts = await asyncio.gather(*(self._rendered(of, name) for of, name in wanted))
        body = await visit.view.body(visit, dict(zip(names, parts, strict=False)))
        count = [needs.element(other, parts[-1]) for other in counting]
        return page(frame(visit, body, self._assets, position, count))

    async def _rendered(self, visit: Visit, name: str) -> Rendered:
        """A region, read after a position of the feed; tabs that are at the same position share it."""
        region = visit.view.regions[name]
        viewer = visit.viewer
        who: Any = viewer.caller if region.personal else (viewer.readable(), viewer.sees_holders)
        key = visit.view.name, name, visit.project, visit.id, tuple(sorted(visit.query.items())), who, visit.at

        async def make() -> Rendered:
            return region.render(await region.load(visit))

        return await self._reads.shared(key, make)

    async def _region(self, visit: Visit, name: str, head: Mapping[bytes, bytes]) -> PageAnswer:
        region = await self._rendered(replace(visit, at=head.get(b"fleet-at", b"")[:80].decode("latin-1")), name)
        have = set(head.get(b"fleet-have", b"").decode("latin-1").split(","))
        rows = [row[:2] if row.digest in have else row for row in region.rows]
        answer = {"rows": rows, "total": region.total, "offset": region.offset, "more": region.more}
        answer |= {"head": region.head, "again": region.again}
        # msgspec encodes no subclass of str (Markup).
        return data(msgspec.json.encode({**answer, "now": int(time.time() * 1000)}, enc_hook=str.__str__))

    def _failed(
        self, scope: Scope, head: Mapping[bytes, bytes], failure: ToolFailure, viewer: Viewer | None
    ) -> PageAnswer:
        """The answer to a request that failed: a page for people, JSON for scripts."""
        status = _STATUS.get(failure.code, 503 if failure.kind in ("shedding", "transient") else 400)
        more: list[Header] = []
        if failure.kind in ("shedding", "transient"):
            more.append((b"retry-after", b"%d" % max(1, -(-(failure.retry_after_ms or 1000) // 1000))))
        if head.get(b"sec-fetch-mode") not in (None, b"navigate"):
            return data(msgspec.json.encode(failure.body()), status, *more)
        if status == 401:
            return redirect(signin_path(scope["path"], scope["query_string"]))
        seconds = int(more[0][1]) if more and scope["method"] == "GET" else 0
        if seconds:  # the page tries again by itself, not all at the same time
            more.append((b"refresh", b"%d" % random.randint(2 * seconds, 2 * seconds + 2)))
        text = problem(viewer, self._assets, HTTPStatus(status).phrase, failure.message, again=bool(seconds))
        return page(text, status, *more)

    def _places(self, head: Mapping[bytes, bytes]) -> Sequence[Place]:
        host = head[b"host"].decode("latin-1")
        if self._port:
            host = f"{re.sub(r':[0-9]+$', '', host)}:{self._port}"
        return self._welcome.places(host)

    def _check_project(self, project: str, viewer: Viewer) -> None:
        refusal = self._endpoints.project(project)
        if refusal is not None:
            raise ToolFailure("RESOURCE_NOT_FOUND", refusal.message)
        if not viewer.sees(project):
            raise ToolFailure("permission_denied", f"you may not see the project '{project}'")


def _query(text: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(text[:_LONGEST_QUERIES].decode("latin-1"), max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise invalid("query", f"must have at most {_MOST_PARAMETERS} parameters") from None
    return {key: value[:_LONGEST_QUERY] for key, value in pairs}
