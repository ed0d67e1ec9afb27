"""Resources of an endpoint: fixed texts of its toolsets, and documents about its project.

A document has the URI ``fleet://<project>/<path>`` and is the answer of a tool that reads, run as a call of that tool.
A URI that leads nowhere and one that the caller may not read are refused alike, so nobody learns what there is
elsewhere.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from coordinator.toolsets.tool import Document, Resource, Tool, document_uri
from coordinator.transport.calls import Calls, Done
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.http.replies import JSON
from coordinator.transport.mcp.exchange import Context, Exchange, ExchangeOf

FRESH_MS = 1_000
"""How long clients may keep a document."""

_JSON_TYPE = JSON.decode()
_URI = re.compile(r"fleet://(?P<project>[^/]+)/(?P<path>[^?#]+)")
_Result = TypeVar("_Result", bound=types.CacheableResult)
_NOWHERE = frozenset(("", "RESOURCE_NOT_FOUND", "VALIDATION_ERROR", "permission_denied"))
"""Codes of failures that mean: there is no such document, or not for this caller ('': of a toolset's own form)."""


class Place(NamedTuple):
    """What a URI leads to."""

    uri: str
    """As the client wrote it."""
    toolset: str
    document: Document
    id: str


class Resources:
    """The resources of one endpoint.

    Args:
        transport: sdk or stdio, for metrics.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        calls: Calls,
        transport: str,
        exchange_of: ExchangeOf,
    ) -> None:
        self._endpoint = endpoint
        self._calls = calls
        self._transport = transport
        self._exchange_of = exchange_of
        self._documents = {one.path: (toolset.name, one) for toolset in endpoint.toolsets for one in toolset.documents}

    @property
    def some(self) -> bool:
        """Whether the endpoint has any."""
        return bool(self._documents or self._endpoint.resources(None))

    @property
    def templates(self) -> bool:
        """Whether any of them has an id in its URI."""
        return any("{id}" in path for path in self._documents)

    async def list_entries(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Entry points: fixed texts, and the documents without an id."""
        check_cursor(params)
        exchange = await self._exchange_of(context)
        entries = [_described(resource) for resource in self._endpoint.resources(exchange.caller).values()]
        entries += [
            types.Resource(
                uri=document_uri(exchange.project, document.path),
                name=document.name,
                title=document.title,
                description=document.description,
                mime_type=_JSON_TYPE,
            )
            for document in self._readable(exchange)
            if "{id}" not in document.path
        ]
        return scoped(types.ListResourcesResult(resources=entries), exchange)

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The kinds of documents with an id. The project is that of the endpoint."""
        check_cursor(params)
        exchange = await self._exchange_of(context)
        templates = [
            types.ResourceTemplate(
                uri_template=document_uri("{project}", document.path),
                name=document.name,
                title=document.title,
                description=document.description,
                mime_type=_JSON_TYPE,
            )
            for document in self._readable(exchange)
            if "{id}" in document.path
        ]
        return scoped(types.ListResourceTemplatesResult(resource_templates=templates), exchange)

    async def read_one(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        exchange = await self._exchange_of(context)
        uri = str(params.uri)
        fixed = self._endpoint.resources(exchange.caller).get(uri)
        if fixed is not None:
            return scoped(types.ReadResourceResult(contents=[_content(uri, fixed.text)]), exchange)
        place = self.place(exchange, uri)
        if place is None:
            raise self._unknown(exchange, uri)
        done = await self.answer(exchange, place, str(context.request_id))
        if done.failed:
            if absent(done):
                raise self._unknown(exchange, uri)
            exchange.retry_after = done.retry_after
            raise MCPError(types.INTERNAL_ERROR, f"The resource cannot be read now: {done.body.decode()}")
        return types.ReadResourceResult(
            contents=[_content(uri, done.body.decode())], cache_scope="private", ttl_ms=FRESH_MS
        )

    def place(self, exchange: Exchange, uri: str) -> Place | None:
        """What a URI leads to, if anything and if the caller may use the tool that answers. Whether there is a thing
        with its id is not known yet."""
        match = _URI.fullmatch(uri)
        if match is None or match["project"] != exchange.project:
            return None
        path, name = match["path"], None
        kind, *below = path.split("/")
        if below:
            name, path = below[0], "/".join((kind, "{id}", *below[1:]))
        toolset, document = self._documents.get(path, ("", None))
        if document is None or not self._permits(exchange, toolset):
            return None
        id_ = "" if name is None else document.ids(name)
        return None if id_ is None else Place(uri, toolset, document, id_)

    def thing(self, place: Place) -> Place:
        """The plain document of the thing that a document is about, perhaps the same."""
        kind = place.document.path.partition("/")[0]
        return place._replace(document=self._documents[f"{kind}/{{id}}" if place.id else kind][1])

    async def answer(self, exchange: Exchange, place: Place, request_id: str) -> Done:
        tool: Tool = place.document.tool
        return await self._calls.run(
            tool, exchange.call(request_id), place.document.arguments(place.id), self._transport
        )

    def _permits(self, exchange: Exchange, toolset: str) -> bool:
        return exchange.caller is None or self._endpoint.reads(exchange.caller, toolset)

    def _readable(self, exchange: Exchange) -> list[Document]:
        return [document for toolset, document in self._documents.values() if self._permits(exchange, toolset)]

    def _unknown(self, exchange: Exchange, uri: str) -> MCPError:
        documents = (document_uri(exchange.project, document.path) for document in self._readable(exchange))
        known = ", ".join((*self._endpoint.resources(exchange.caller), *documents)) or "none"
        message = f"Unknown resource: {uri[:200]}; there are: {known}"
        return MCPError(types.INVALID_PARAMS, message, {"uri": uri})


def absent(done: Done) -> bool:
    """Whether the answer about a document means that there is none."""
    return done.failed and done.code in _NOWHERE


def check_cursor(params: types.PaginatedRequestParams | None) -> None:
    """Refuses the cursor of a list that has one page."""
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor: the list has one page and gives none")


def scoped(result: _Result, exchange: Exchange) -> _Result:
    """The result, not to be shared by caches if it depends on the caller."""
    return result.model_copy(update={"cache_scope": "private"}) if exchange.for_some else result


def _described(resource: Resource) -> types.Resource:
    return types.Resource(
        uri=resource.uri,
        name=resource.name,
        description=resource.description,
        mime_type=_JSON_TYPE,
        size=len(resource.text.encode()),
    )


def _content(uri: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=_JSON_TYPE, text=text)
