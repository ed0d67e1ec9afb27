"""Which resources of a subscription an event is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from coordinator.feed import Event, Filter
from coordinator.feed.filters import forms
from coordinator.toolsets.caller import Caller
from coordinator.transport.feed.ids import limited
from coordinator.transport.mcp.resources import Place


class Tree(NamedTuple):
    """A tree that is watched."""

    place: Place
    lineage: tuple[str, ...]


class Watch:
    """The resources that a subscription is told about, by what their events name."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[str]] = {}
        self._by_root: dict[str, list[str]] = {}
        self._by_toolset: dict[str, list[str]] = {}
        self._by_lineage: dict[str, list[Tree]] = {}
        self.offers: list[str] = []
        """Those that no event is about, but what a toolset offers."""
        self.uris: list[str] = []
        """All of them, in the order of the request."""

    def add(self, place: Place, data: bytes) -> None:
        """Adds a resource.

        Args:
            data: the thing with its id, as its document shows it; of an item with its ancestors, root first.
        """
        self.uris.append(place.uri)
        follows = place.document.follows
        if follows == "all":
            self._by_toolset.setdefault(place.toolset, []).append(place.uri)
        elif follows == "id":
            for form in forms(place.id, "id"):
                self._by_id.setdefault(form, []).append(place.uri)
        elif follows == "offer":
            self.offers.append(place.uri)
        elif follows == "root":
            tree = Tree(place, lineage_of(place, data))
            for item in tree.lineage:
                self._by_lineage.setdefault(item, []).append(tree)
            self._by_root.setdefault(tree.lineage[0], []).append(place.uri)

    def filters(self, caller: Caller | None) -> Sequence[Filter]:
        """The filters of the listeners that it takes."""
        paths = []
        if self._by_id:
            paths.append(Filter(ids=frozenset(self._by_id)))
        if self._by_root:
            paths.append(Filter(roots=frozenset(self._by_root)))
        if self._by_toolset:
            paths.append(limited(Filter(), caller, frozenset(self._by_toolset)))
        return paths

    def told_by(self, event: Event) -> Iterable[str]:
        """The URIs of the resources that an event may have changed."""
        for id_ in event.ids:
            yield from self._by_id.get(id_, ())
        if event.root:
            yield from self._by_root.get(event.root, ())
        yield from self._by_toolset.get(event.toolset, ())

    def moved_by(self, event: Event) -> Iterable[Tree]:
        """The trees that may have another root after an event."""
        return self._by_lineage.get(event.id, ()) if event.kind.name == "item.update" else ()


def lineage_of(place: Place, data: bytes | None) -> tuple[str, ...]:
    """An item and those above it, root first, as in the stream.

    Args:
        data: the item, as its document shows it; None: there is none any more.
    """
    item: dict[str, Any] = msgspec.json.decode(data or b"{}")
    return tuple(id_.replace("-", "") for id_ in (*(above["id"] for above in item.get("ancestors", ())), place.id))
