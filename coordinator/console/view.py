"""What a page of the console is: a body, and regions that stay current.

A region is an ordered list of rows with keys. It is rendered into its page, and answered again, as JSON, whenever a
tab asks for it: then only with the rows whose digests the tab does not have. Tabs that look at the same get the same
rendered rows (``reads.Reads.shared``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlencode

import htpy
from htpy import Element, Node
from markupsafe import Markup

from coordinator.console.graphs.layouts import Layouts
from coordinator.console.viewer import Viewer
from coordinator.transport.http.welcome import Place

if TYPE_CHECKING:
    from coordinator.console.reads import Reads
    from coordinator.store import Store

T = TypeVar("T")
P = ParamSpec("P")
MOST_ROWS = 100
"""Rows of a window."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a viewer asks for: a page, or a region of it."""

    viewer: Viewer
    view: View
    project: str
    """Empty: the view is not about a project."""
    id: str
    """What follows the view's name in the path: an id, not checked; empty: nothing."""
    query: Mapping[str, str]
    """Only what the view declares, not checked further."""
    reads: Reads
    layouts: Layouts
    places: Sequence[Place] = ()
    """What this server serves to clients, the MCP endpoint first. Only for what is not in a region."""
    listed: frozenset[str] = frozenset()
    """The projects that the settings allow; empty: any."""
    at: str = ""
    """The position of the feed that everything read must be newer than; '' for none."""

    @property
    def offset(self) -> int:
        """Where the window begins, in rows."""
        text = self.query.get("offset", "")
        return int(text) if text.isdecimal() and len(text) < 9 else 0

    @property
    def path(self) -> str:
        return path_of(self.view.name, self.project, self.id)

    async def tool(self, toolset: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """The result of a tool that reads. Raises ToolFailure as ``Reads.tool``."""
        return await self.reads.tool(self.viewer, self.project, toolset, name, arguments)

    async def read(
        self, read: Callable[Concatenate[Store, str, P], Awaitable[T]], *args: P.args, **more: P.kwargs
    ) -> T:
        """What a function reads of the project in the store. Raises ToolFailure as ``Reads.admitted``."""
        return await self.reads.admitted(self.project, lambda: read(self.reads.store, self.project, *args, **more))

    def url(self, **changes: str | None) -> str:
        """The page with some of its query changed; None and '' leave a parameter out."""
        query = {key: value for key, value in {**self.query, **changes}.items() if value}
        return self.path + (f"?{urlencode(query)}" if query else "")


def path_of(view: str, project: str = "", id: str = "") -> str:
    return "/console" + (f"/p/{project}" if project else "") + f"/{view}" + (f"/{id}" if id else "")


class Row(NamedTuple):
    key: str
    """Unique in its region, such as ``item:<id>``: it names what the row shows, and not its place. Events about this id
    refresh the region at once."""
    content: Node
    classes: str = ""
    attributes: Mapping[str, str] = {}
    """Of its element, such as ``tabindex``."""


class Rows(NamedTuple):
    rows: Sequence[Row]
    total: int | None = None
    """How many rows there are in all; None: these are all."""
    offset: int = 0
    """The place of the first row among all of them."""
    more: bool = False
    """Whether there are more than ``total``, which are not counted."""
    head: Node = None
    """What the page says about the list outside of it (``region_head``), such as how many there are."""
    again: int = 0
    """The region is asked for again after so many seconds, even if nothing has happened; 0: it is not."""


class RenderedRow(NamedTuple):
    """A row as tabs get it."""

    key: str
    digest: str
    html: Markup


class Rendered(NamedTuple):
    """A region as tabs get it."""

    rows: tuple[RenderedRow, ...]
    total: int
    offset: int
    more: bool
    head: Markup
    again: int


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page that stays current.

    Args:
        load: reads its rows. Raises ToolFailure.
        watch: toolsets whose events may change it.
        row: the element of each row.
        seconds: it is also read again so often, for what changes without events; 0: it is not.
        height: of a row, in px, if the region is a window over a long list that scrolls; 0: it is none.
        personal: whether what it shows depends on the viewer, and not only on the toolsets that they may read.
        own: whether only events about the id in the page's path can change it.
    """

    load: Callable[[Visit], Awaitable[Rows]]
    watch: tuple[str, ...] = ()
    row: Element = htpy.li
    seconds: int = 0
    height: int = 0
    personal: bool = False
    own: bool = False

    def render(self, region: Rows) -> Rendered:
        total = len(region.rows) if region.total is None else region.total
        rows, head = tuple(map(self._rendered, region.rows)), htpy.fragment[region.head].__html__()
        return Rendered(rows, total, region.offset, region.more, head, region.again)

    def _rendered(self, row: Row) -> RenderedRow:
        content = htpy.fragment[row.content].__html__()
        # With the key, so that a tab that has the digest has this row, and not another one that looks the same.
        text = f"{row.key} {row.classes} {sorted(row.attributes.items())} {content}"
        digest = blake2s(text.encode(), digest_size=6).hexdigest()
        element = self.row(row.attributes, class_=row.classes or None, data_key=row.key, data_digest=digest)
        return RenderedRow(row.key, digest, element[content].__html__())


@dataclass(frozen=True, slots=True)
class View:
    """A page.

    Args:
        name: in paths.
        title: in the navigation and as the page's heading.
        body: what the page shows, given its rendered regions as elements (``region_element``).
        of_project: whether it is about one project.
        needs: toolsets of which the viewer must be able to read one; none: everybody may see it.
        of_fleet: whether it is about the fleet as a whole: the viewer must be able to read all toolsets, or operate.
        takes_id: whether its path ends in an id.
        query: the parameters of the query that it knows.
        modules: further ES modules that it needs.
        titled: whether the title is its heading; else the body has one.
    """

    name: str
    title: str
    body: Callable[[Visit, Mapping[str, Rendered]], Awaitable[Node]]
    regions: Mapping[str, Region] = field(default_factory=dict)
    of_project: bool = True
    needs: tuple[str, ...] = ()
    of_fleet: bool = False
    takes_id: bool = False
    query: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    titled: bool = True

    def open_to(self, viewer: Viewer) -> bool:
        return viewer.sees_fleet if self.of_fleet else not self.needs or any(map(viewer.reads, self.needs))

    @property
    def refusal(self) -> str:
        """What a viewer is told who may not see it."""
        needed = "'*.read' or 'operate'" if self.of_fleet else f"'{self.needs[0]}.read'"
        return f"this page needs the permission {needed}"


def region_element(
    visit: Visit, name: str, rendered: Mapping[str, Rendered], container: Element, empty: Node = None, **attributes: str
) -> Node:
    """A region in its element, with attributes as htpy spells them; ``empty`` is shown while it has no rows."""
    region, part = visit.view.regions[name], rendered[name]
    query = urlencode({key: value for key, value in visit.query.items() if value})
    return [
        htpy.button(".news", type="button", hidden=True) if region.height else None,
        container(
            **attributes,
            data_region=name,
            data_src=f"{visit.path}/~{name}" + (f"?{query}" if query else ""),
            data_watch=" ".join(region.watch) or None,
            data_seconds=str(region.seconds) if region.seconds else None,
            data_height=str(region.height) if region.height else None,
            data_own=visit.id if region.own else None,
            data_again=str(part.again) if part.again else None,
            data_total=str(part.total),
            data_offset=str(part.offset),
        )[(row.html for row in part.rows)],
        htpy.div(".empty", data_empty_of=name, hidden=bool(part.rows))[empty] if empty is not None else None,
    ]


def region_head(name: str, rendered: Mapping[str, Rendered], container: Element = htpy.span) -> Node:
    """What a page says about a region outside of it (``Rows.head``); it stays current with the region."""
    return container(data_head_of=name)[rendered[name].head]
