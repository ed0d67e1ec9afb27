"""``fleet items plan``: a tree of work from a file."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.connection import HERE, Connection
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.items.arguments import AsJson, item
from coordinator.cli.items.calls import full_id
from coordinator.cli.items.completing import ids
from coordinator.cli.items.tables import short
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet, Invalid
from coordinator.client.plans.plan import Node, Plan, Text, read
from coordinator.client.trees import UNFINISHED
from coordinator.wording import counted, printable

_DIGITS = 16
_PATIENCE_SECONDS = 60.0


def plan(
    file: Annotated[str, Parameter(help="YAML, or a Markdown task list; '-': stdin.", allow_leading_hyphen=True)],
    *,
    format: Annotated[
        Literal["yaml", "markdown"] | None,
        Parameter(help="What it is. Default: Markdown if its name ends with .md or .markdown, else YAML."),
    ] = None,
    parent: Annotated[str | None, Parameter(help="The item to put the tree below.", completer=ids)] = None,
    again: Annotated[
        bool,
        Parameter(help="Make another tree although the plan was made before; an unfinished one goes."),
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Change nothing; show what would be made.")] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    text = _text(file, format)
    try:
        stated = read(text)
    except Invalid as error:
        raise CommandFailed(error.message, Exit.USAGE) from None

    async def act(fleet: Fleet) -> tuple[str, Mapping[str, str]]:
        below = None if parent is None else await full_id(fleet, item(parent, "--parent"))
        tag = _mark(stated, below)
        if not again and (before := await _made(fleet, tag)):
            return before[0], {}
        if dry_run:
            return "", {}
        if again:
            await _clear(fleet, tag)
        try:
            tree = await fleet.plan(stated, parent=below)
        except Invalid as error:
            raise CommandFailed(text.located(error.message), Exit.USAGE) from None
        if not again and (first := (await _roots(fleet, tag))[0]["id"]) != tree.id:
            # Another run has made it at the same moment: of the two, the older one stays.
            await fleet.call("manage_items", {"operation": "delete", "ids": [tree.id], "recursive": True})
            return first, {}
        return tree.id, tree.ids

    root, made = at.run(act, patience=_PATIENCE_SECONDS)
    if json:
        print_json({"made": bool(made), "id": root or None, "ids": made})
        return
    total = f"{counted(len([*stated.root.all()]), 'item')}, {counted(len(stated.edges), 'dependency', 'dependencies')}"
    if root and not made:
        print(f"{short(root)}  was made before from this plan: {printable(stated.root.fields['title'])}")
        print("fleet: nothing is made; --again makes another tree of it", file=sys.stderr)
        return
    titles = {node.ref: printable(node.fields["title"]) for node in stated.root.all()}
    waits: dict[str, list[str]] = {}
    for blocker, other in stated.edges:
        waits.setdefault(other, []).append(titles[blocker])
    print("\n".join(_lines(stated.root, made, waits, 0)))
    print(f"fleet: {total}{'' if made else ' would be made'}", file=sys.stderr)


def _text(file: str, format: str | None) -> Text:
    """The plan as it is written. Raises CommandFailed: it cannot be read."""
    try:
        if file == "-":
            return Text.from_stream(sys.stdin.buffer, "stdin", format == "markdown")
        source = Text.of(Path(file))
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}", Exit.USAGE) from None
    except Invalid as error:
        raise CommandFailed(error.message, Exit.USAGE) from None
    return source if format is None else Text(source.text, source.name, format == "markdown")


def _mark(plan: Plan, parent: str | None) -> str:
    """Gives the root a tag by which the plan is found again, and returns it: one that lists do not show."""
    nodes = [
        (node.fields | ({"blocked": True} if node.blocked else {}), node.notes, node.done, len(node.children))
        for node in plan.root.all()
    ]
    written = msgspec.json.encode([nodes, sorted(plan.edges), parent], order="sorted")
    tag = f"x-{hashlib.sha256(written).hexdigest()[:_DIGITS]}"
    tags = plan.root.fields.get("tags")
    plan.root.fields["tags"] = f"{tags},{tag}" if tags else tag
    return tag


async def _made(fleet: Fleet, tag: str) -> list[str]:
    """The roots of the trees that a plan has made, the oldest first. Raises CommandFailed: one of them is not whole."""
    roots = await _roots(fleet, tag)
    if unfinished := next((root for root in roots if root.get("statusLabel") == UNFINISHED), None):
        raise CommandFailed(
            f"{short(unfinished['id'])} of this plan is unfinished: another run is making it, or was ended in the "
            "middle; in that case --again deletes it and makes another",
            Exit.FAILED,
        )
    return [root["id"] for root in roots]


async def _clear(fleet: Fleet, tag: str) -> None:
    """Deletes the trees of a plan that are not whole: nobody has worked on them, because their items are blocked."""
    if unfinished := [root["id"] for root in await _roots(fleet, tag) if root.get("statusLabel") == UNFINISHED]:
        await fleet.call("manage_items", {"operation": "delete", "ids": unfinished, "recursive": True})


async def _roots(fleet: Fleet, tag: str) -> list[dict[str, Any]]:
    query = {"operation": "search", "tags": tag, "sortBy": "createdAt", "sortOrder": "asc"}
    return list((await fleet.call("query_items", query))["items"])


def _lines(node: Node, made: Mapping[str, str], waits: Mapping[str, list[str]], depth: int) -> Iterator[str]:
    """A line for each item: its id, if it has one, title, and what it waits for."""
    lead = f"{short(made[node.ref])}  " if made else ""
    state = node.fields.get("statusLabel") or ("done" if node.done else "blocked" if node.blocked else "")
    more = f"  ({printable(state)})" if state else ""
    more += f"  (after {', '.join(waits[node.ref])})" if node.ref in waits else ""
    yield f"{lead}{'  ' * depth}{printable(node.fields['title'])}{more}"
    for child in node.children:
        yield from _lines(child, made, waits, depth + 1)
