"""``fleet events``: what happens in a project, as the change feed has it."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.connection import AT_STORE, ByUrl
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet, Unavailable
from coordinator.client.calls import WAIT_MS, away_seconds
from coordinator.errors import ToolFailure
from coordinator.feed import Cursor, Event, FeedReader, Gap
from coordinator.feed.cursor import OLDEST
from coordinator.feed.listener import Item
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.wording import printable

if TYPE_CHECKING:
    from coordinator.transport.feed.request import FeedRequest


_COUNT = 100
_PAGE = 1_000
"""Events of one answer of the feed; its most."""


@with_settings(only=STORE_SETTINGS)
def events(
    loaded: LoadedSettings,
    *,
    project: Annotated[str, Parameter(help="The project.")] = DEFAULT_PROJECT,
    follow: Annotated[bool, Parameter(help="Go on with what happens, until interrupted.")] = False,
    after: Annotated[
        str | None, Parameter(help=f"A cursor: only what came after it; '{OLDEST}': all that is kept.")
    ] = None,
    kinds: Annotated[str | None, Parameter(help="Only these kinds, after commas: item.transition,flow.* ...")] = None,
    id: Annotated[
        str | None, Parameter(help="Only what concerns these items, workflows, sessions or instances.")
    ] = None,
    root: Annotated[str | None, Parameter(help="Only what happens in the trees below these items.")] = None,
    count: Annotated[
        int | None, Parameter(help="Without --after and --follow: only the last ones; 100 by default. [1 to 100000]")
    ] = None,
    json: Annotated[bool, Parameter(help="Print one JSON object a line, as the feed has it.")] = False,
    by_url: ByUrl = AT_STORE,
) -> None:
    # Here, because it imports the transport with MCP's SDK, for which other commands would have to wait, too.
    from coordinator.transport.feed.request import read_request

    if count is not None:
        check_range("--count", count, 1, 100_000)
        if follow or after is not None:
            raise CommandFailed("--count: goes without --after and --follow", Exit.USAGE)
    begin = OLDEST if after is None and not follow else after
    filters = {name: value for name, value in (("kinds", kinds), ("id", id), ("root", root)) if value is not None}
    query = filters if begin is None else {**filters, "after": begin}
    try:
        request = read_request(f"/feed/{project}", urlencode(query).encode(), {})
    except ToolFailure as failure:
        raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
    last = None if follow or after is not None else count or _COUNT
    if (at := by_url.connection(loaded, project)) is not None:
        at.run(lambda fleet: _show_answers(_answers(fleet, filters, begin, follow), last, json))
        return

    async def show(store: Store) -> None:
        if why := await unwritten(store, project):
            print(f"fleet: {why}", file=sys.stderr)
        await _show(store, request, follow, last, json)

    with_store(loaded, show)


async def _show(store: Store, request: FeedRequest, follow: bool, last: int | None, as_json: bool) -> None:
    """Prints events; ``last``: only so many, the last ones."""
    from coordinator.transport.feed.ids import check_ids

    reader = FeedReader(store)
    position = await reader.position(request.project, request.after, request.named)
    try:
        at = await check_ids(reader, request, request.filter, position)
    except ToolFailure as failure:
        code = Exit.USAGE if failure.code == "VALIDATION_ERROR" else Exit.FAILED
        raise CommandFailed(f"--{failure.message}", code) from None
    if position.gap is not None:
        _print(position.gap, as_json)
    listener, kept = reader.listen(at, request.filter), deque[Item](maxlen=last)
    try:
        while listener.behind or follow:
            items = await listener.take()
            if last is not None:
                kept.extend(items)
                continue
            for item in items:
                _print(item, as_json)
            sys.stdout.flush()
            if follow and listener.ended == "slow":  # it prints to a slow reader: it goes on by itself from where it is
                reader.close(listener)
                listener = reader.listen(_position(items, at), request.filter)
            at = _position(items, at)
        for item in kept:
            _print(item, as_json)
        _print_cursor(reader.cursor_of(listener), as_json)
    finally:
        reader.close(listener)
        await reader.stop()


def _position(items: list[Item], at: Cursor) -> Cursor:
    last = next((item for item in reversed(items) if isinstance(item, Event)), None)
    return at if last is None else Cursor(at.project, at.epoch, last.entry)


async def _answers(
    fleet: Fleet, filters: Mapping[str, str], after: str | None, follow: bool
) -> AsyncIterator[dict[str, Any]]:
    """Answers of the feed, from a cursor or from now on, until nothing more is kept; with ``follow``, without end."""
    failures, waits = 0, 0
    while True:
        query = {**filters, "waitMs": waits, "limit": _PAGE} | ({"after": after} if after is not None else {})
        try:
            answer = await fleet.feed(urlencode(query))
        except Unavailable:
            if not follow:
                raise
            await asyncio.sleep(away_seconds(failures))
            failures += 1
            continue
        failures, after = 0, answer["cursor"]
        yield answer
        if not (follow or answer["hasMore"]):
            return
        waits = 0 if answer["hasMore"] else WAIT_MS


async def _show_answers(answers: AsyncIterator[dict[str, Any]], last: int | None, as_json: bool) -> None:
    """Prints the events of answers; ``last``: only so many, the last ones."""
    kept, cursor = deque[dict[str, Any]](maxlen=last), ""
    async for answer in answers:
        cursor = answer["cursor"]
        if hint := answer.get("hint"):
            print(f"fleet: {printable(hint)}", file=sys.stderr)
        if "gap" in answer:
            _print_gap(answer["gap"]["reason"], cursor, as_json)
        kept.extend(answer["events"])
        while last is None and kept:
            _print_event(kept.popleft(), as_json)
        sys.stdout.flush()
    for event in kept:
        _print_event(event, as_json)
    _print_cursor(cursor, as_json)


def _print_cursor(cursor: str, as_json: bool) -> None:
    if not as_json:
        print(f"fleet: go on with --after {cursor}", file=sys.stderr)


def _print(item: Item, as_json: bool) -> None:
    if isinstance(item, Gap):
        _print_gap(item.reason, item.cursor, as_json)
    else:
        _print_event(item.envelope, as_json)


def _print_gap(reason: str, cursor: str, as_json: bool) -> None:
    if as_json:
        print_json({"gap": {"reason": reason}, "cursor": cursor}, indent=-1)
    else:
        print(f"fleet: events are missing here: {reason}", file=sys.stderr)


def _print_event(envelope: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(envelope, indent=-1)
        return
    data: dict[str, Any] = envelope["data"]
    facts = {name: value for name, value in data.items() if name not in ("project", "id", "rootId", "from", "to")}
    words = [envelope["timestamp"], f"{envelope['name']:<16}", str(data["id"])]
    if "to" in data:
        words.append(f"{data['from']} -> {data['to']}" if "from" in data else f"-> {data['to']}")
    words += [f"{name}={value}" for name, value in facts.items()]
    if data.get("rootId", data["id"]) != data["id"]:
        words.append(f"root={data['rootId']}")
    print(printable("  ".join(words)))
