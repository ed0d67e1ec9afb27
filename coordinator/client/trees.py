"""Trees of work: how an orchestrator makes one, waits for it, and reads what came of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from coordinator.client.calls import WAIT_MS
from coordinator.client.core import Core
from coordinator.client.errors import Invalid, NotFound, Refused, error_of
from coordinator.client.held_back import counted
from coordinator.client.plans.plan import Node, Plan, read
from coordinator.client.wire import encoded

T = TypeVar("T")
_AT_ONCE = 125, 600, 150_000
"""Items and edges, notes, and bytes that go into one call which makes the whole tree or nothing."""
_ITEMS, _EDGES, _NOTES, _TRANSITIONS = 500, 150, 200, 100
"""Most in one call otherwise."""
_READS_AT_A_TIME = 8
_PAGE = 200
_FIELD = re.compile(r"\w+: ")
_PLACE = re.compile(r"\A(?:root|children\[\d+\])(?=[.:])")
_BY_AGE = {"sortBy": "createdAt", "sortOrder": "asc"}
UNFINISHED = "plan unfinished"
"""Status label of the root of a tree that is made in several calls, until the last one."""


class Tree:
    """An item with all items below it.

    Attributes:
        id: the UUID of its root.
        ids: of a planned tree, ref -> UUID; the root's ref is ``root`` unless the plan gives it another one.
    """

    def __init__(self, core: Core, id: str, ids: Mapping[str, str] | None = None) -> None:
        self.id = id
        self.ids: Mapping[str, str] = ids or {}
        self._core = core

    async def finished(self) -> dict[str, int]:
        """Waits until no item below is open, and returns how many there are in each role. Nobody polls: the fleet
        answers when it is so. Bound the time with ``asyncio.timeout``."""
        waits = {"itemId": self.id, "waitFor": "tree_terminal"}
        return dict((await self._core.until_met("get_context", waits))["waited"].get("counts", {}))

    async def held_back(self, capabilities: Sequence[str] = ()) -> dict[str, int]:
        """Why nothing below is offered to an agent with these capabilities: how many items are held back, by reason
        (``heldBack`` of ``get_next_item``); empty if a new item is offered, or nothing is held back."""
        selector = {"ancestorId": self.id, "parents": "after_children", "capabilities": [*capabilities]}
        return counted(await self._core.call("get_next_item", selector))

    async def results(self) -> dict[str, Any]:
        """What came of the items that have a result: by ref for a planned tree, else by UUID."""
        refs = {item: ref for ref, item in self.ids.items()}
        items = [*self.ids.values()] or [item["id"] async for item in self.items()]
        room = asyncio.Semaphore(_READS_AT_A_TIME)

        async def result(item: str) -> tuple[str, Any]:
            async with room:
                notes = await self._core.call("query_notes", {"operation": "list", "itemId": item})
            note = next((note for note in notes["notes"] if note["key"] == "result"), None)
            if note is None:
                return item, None
            return item, msgspec.json.decode(note["body"]) if note.get("format") == "json" else note["body"]

        results = await asyncio.gather(*(result(item) for item in items))
        return {refs.get(item, item): value for item, value in results if value is not None}

    async def items(self) -> AsyncIterator[dict[str, Any]]:
        """The items below, as lists show them: each level before the next one."""
        parents = [self.id]
        while parents:
            below = []
            for parent in parents:
                async for item in self._children(parent):
                    below.append(item["id"])
                    yield item
            parents = below

    async def events(self, kinds: str | Sequence[str] = (), after: str = "") -> AsyncIterator[dict[str, Any]]:
        """Events of the change feed about the tree, until it is finished or deleted; those that say so are the last.

        Each has ``name``, ``timestamp``, ``data`` and ``cursor``; a ``gap`` says that some are missing. A tree that is
        part of a larger one is told with it, so compare ``data["id"]``. If the tree is moved, what comes then is
        that of the one that it belongs to now.

        Args:
            kinds: kinds of events or groups of them; default: those that listeners get.
            after: ``cursor`` of the last event that is known, or ``oldest``; default: from now on. If the tree was
                deleted since, and was part of a larger one, only the events about its own item come.

        Raises:
            NotFound: there is no such item, nor has any event from then on to do with it.
        """
        query = {"kinds": kinds if isinstance(kinds, str) else ",".join(kinds)} if kinds else {}
        over = reported = False
        try:
            _, query["root"] = await self._standing()
        except NotFound:
            if not after:
                raise
            over, query["root"] = True, self.id
        after = after or (await self._core.feed(urlencode({**query, "waitMs": 0})))["cursor"]
        while True:
            if not over:
                # Read before the events: what it does not know yet is still to come.
                try:
                    over, query["root"] = await self._standing()
                except NotFound:
                    over = True
            try:
                answer = await self._core.feed(urlencode({**query, "after": after, "waitMs": 0 if over else WAIT_MS}))
            except NotFound:
                if over and reported:  # its deletion, too
                    return
                if over and query.pop("root", ""):
                    query["id"] = self.id
                    continue
                raise
            after, reported = answer["cursor"], True
            if "gap" in answer:
                yield {"name": "gap", "data": answer["gap"]}
            for event in answer["events"]:
                yield event
            if over and not answer["hasMore"]:
                return

    async def cancel(self) -> None:
        """Cancels all items that are open and that no agent holds, also the root."""
        more = {"rootId": self.id, "trigger": "cancel", "includeRoot": True}
        await self._core.call("complete_tree", more)

    async def _standing(self) -> tuple[bool, str]:
        """Whether it is finished, and the item at the top of the tree that it belongs to. Raises NotFound."""
        arguments = {"itemId": self.id, "includeAncestors": True, "waitFor": "tree_terminal", "waitMs": 0}
        found = await self._core.call("get_context", arguments)
        return found["waited"]["met"], next((root["id"] for root in found["item"].get("ancestors", ())), self.id)

    async def _children(self, parent: str) -> AsyncIterator[dict[str, Any]]:
        offset, total = 0, 1
        while offset < total:
            # The oldest first: what is created meanwhile comes at the end.
            page = {"operation": "search", "parentId": parent, "limit": _PAGE, "offset": offset, **_BY_AGE}
            answer = await self._core.call("query_items", page)
            for item in answer["items"]:
                yield item
            offset, total = offset + answer["returned"], answer["total"] if answer["returned"] else 0


async def planted(core: Core, source: Mapping[str, Any] | str | Path | Plan, parent: str | None) -> Tree:
    """Creates the tree of a plan: see ``Fleet.plan``."""
    plan = read(source)
    nodes = [*plan.root.all()]
    made = _whole(plan, nodes, parent)
    if made is not None:
        try:
            answer = await core.call("create_work_tree", made)
        except Invalid as error:
            raise error_of(error.code, _named(error.message), error.data) from None
        ids = {child["ref"]: child["id"] for child in answer["children"]}
        return Tree(core, answer["root"]["id"], {plan.root.ref: answer["root"]["id"], **ids})
    ids = {}
    try:
        await _in_stages(core, plan, nodes, parent, ids)
    except BaseException:
        if plan.root.ref in ids:
            # Half a tree is of no use; nobody has worked on it, because its items are blocked.
            deleted = {"operation": "delete", "ids": [ids[plan.root.ref]], "recursive": True}
            await core.settle(core.call("manage_items", deleted))
        raise
    return Tree(core, ids[plan.root.ref], ids)


def _named(message: str) -> str:
    """A refusal of the tool with the place in the plan that it is about."""
    return _PLACE.sub(lambda place: "plan" if place[0] == "root" else f"plan.{place[0]}", message, 1)


def _whole(plan: Plan, nodes: list[Node], parent: str | None) -> dict[str, Any] | None:
    """The one call that makes a tree of two levels; None: the tree needs several."""
    deep = any(child.children for child in plan.root.children)
    notes = [
        {"itemRef": "root" if node is plan.root else node.ref, "key": key, "role": "queue", "body": body}
        for node in nodes
        for key, body in node.notes.items()
    ]
    most, most_notes, most_bytes = _AT_ONCE
    unusual = any(
        node.done or node.blocked or node.fields.keys() & {"container", "metadata", "properties", "statusLabel"}
        for node in nodes
    )
    if deep or unusual or len(nodes) + len(plan.edges) > most or len(notes) > most_notes:
        return None
    names = {plan.root.ref: "root"}
    made: dict[str, Any] = {
        "root": plan.root.fields,
        "children": [{"ref": node.ref, **node.fields} for node in plan.root.children],
        "deps": [{"from": names.get(ref, ref), "to": names.get(other, other)} for ref, other in plan.edges],
        "notes": notes,
    }
    if parent is not None:
        made["parentId"] = parent
    return made if len(encoded(made)) <= most_bytes else None


async def _in_stages(core: Core, plan: Plan, nodes: list[Node], parent: str | None, ids: dict[str, str]) -> None:
    """Creates the items blocked, level by level, then their edges and notes, and lets them go at the end."""
    level = [(plan.root, parent)]
    while level:
        for part in _parts(level, _ITEMS):
            items = [_item(node, above, plan.root) for node, above in part]
            answer = await core.call("manage_items", {"operation": "create", "items": items})
            if answer["failed"]:
                failure = answer["failures"][0]
                # Some may have been made; those of the first level are the root alone.
                where = part[failure.get("index", 0)][0].path
                text = failure["error"]
                said = f"{where}.{text}" if _FIELD.match(text) else f"{where}: {text}"
                raise error_of("VALIDATION_ERROR", said, answer)
            ids.update((node.ref, item["id"]) for (node, _), item in zip(part, answer["items"], strict=True))
        level = [(child, ids[node.ref]) for node, _ in level for child in node.children]
    for edges in _parts(plan.edges, _EDGES):
        made = [{"fromItemId": ids[ref], "toItemId": ids[other]} for ref, other in edges]
        answer = await core.call("manage_dependencies", {"operation": "create", "dependencies": made})
        if not answer["created"]:
            raise error_of("VALIDATION_ERROR", f"after: {answer['failures'][0]['error']}", answer)
    notes = [(ids[node.ref], key, body) for node in nodes for key, body in node.notes.items()]
    for some in _parts(notes, _NOTES):
        written = [{"itemId": item, "key": key, "role": "queue", "body": body} for item, key, body in some]
        answer = await core.call("manage_notes", {"operation": "upsert", "notes": written})
        if answer["failed"]:
            raise error_of("VALIDATION_ERROR", f"notes: {answer['failures'][0]['error']}", answer)
    # The root is the last: with it goes its label.
    held = [ids[node.ref] for node in (*nodes[1:], plan.root) if not node.done and not node.blocked]
    for part_of in _parts(held, _TRANSITIONS):
        moved = [{"itemId": item, "trigger": "resume"} for item in part_of]
        answer = await core.call("advance_item", {"transitions": moved})
        if refused := [result for result in answer["results"] if not result["applied"]]:
            raise Refused("refused", refused[0]["error"], refused[0])
    labels = [
        {"id": ids[node.ref], "statusLabel": node.fields.get("statusLabel")}
        for node in nodes
        if not node.done and ("statusLabel" in node.fields or (node.blocked and node is plan.root))
    ]
    for changed in _parts(labels, _ITEMS):
        await core.call("manage_items", {"operation": "update", "items": changed})


def _item(node: Node, parent: str | None, root: Node) -> dict[str, Any]:
    item = {**node.fields, "role": "terminal" if node.done else "blocked"}
    if node is root and not node.done:
        item["statusLabel"] = UNFINISHED
    return item if parent is None else {**item, "parentId": parent}


def _parts(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (whole[first : first + size] for first in range(0, len(whole), size))
