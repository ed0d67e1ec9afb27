"""``fleet items add``, ``edit``, ``note``, ``dep add``, ``dep rm``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.connection import HERE, Connection
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.items.arguments import FROM_FILE, AsJson, Id, Phase, Role, given, item, items, words
from coordinator.cli.items.calls import full_id
from coordinator.cli.items.completing import ids
from coordinator.cli.items.options import CLEARED, NO_FIELDS, PARTS_OF_CRON, Fields
from coordinator.cli.items.tables import item_line, note_page, short
from coordinator.cli.refusals import as_typed
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet
from coordinator.wording import counted, printable

_EDGES = 150

Unblock = Annotated[
    Literal["queue", "work", "review", "terminal"] | None, Parameter(help="The role that the blocker must reach.")
]


async def _recurrence(fleet: Fleet, id: str) -> dict[str, Any]:
    """How an item recurs now, as the tools take it; empty: it does not."""
    item = await fleet.call("query_items", {"operation": "get", "id": id})
    return {name: value for name, value in item.get("recurs", {}).items() if name != "nextAt"}


def add(
    title: Annotated[str, Parameter(help="Up to 500 characters.")],
    *,
    after: Annotated[tuple[str, ...], Parameter(help="Wait for this item; may be given more than once.")] = (),
    fields: Fields = NO_FIELDS,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    spec, named = {"title": title, **fields.given()}, [item(id_, "--after") for id_ in after]

    if "cron" not in spec.get("recurs", {"cron": ""}):
        raise CommandFailed(f"{PARTS_OF_CRON} go with --cron", Exit.USAGE)

    async def act(fleet: Fleet) -> dict[str, Any]:
        blockers = [await full_id(fleet, id_) for id_ in named]
        answer = await fleet.call("manage_items", {"operation": "create", "items": [spec]})
        _refused(answer)
        (made,) = answer["items"]
        await _connect(fleet, [{"fromItemId": blocker, "toItemId": made["id"]} for blocker in blockers], made["id"])
        return dict(made)

    made = at.run(act)
    if json:
        print_json(made)
    else:
        print(item_line(made))


def edit(
    id: Id,
    *,
    title: Annotated[str | None, Parameter(help="Up to 500 characters.")] = None,
    fields: Fields = NO_FIELDS,
    clear: Annotated[
        tuple[str, ...],
        Parameter(help=f"Empty this field; may be given more than once: {', '.join(CLEARED)}."),
    ] = (),
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    change = {**given(title=title), **fields.given()}
    for name in clear:
        if name not in CLEARED:
            raise CommandFailed(f"--clear must be one of {', '.join(CLEARED)}, not {name!r}", Exit.USAGE)
        if CLEARED[name] in change:
            raise CommandFailed(f"--clear {name}: a value is given, too", Exit.USAGE)
        change[CLEARED[name]] = None
    if not change:
        raise CommandFailed("nothing to change: give at least one field", Exit.USAGE)

    async def act(fleet: Fleet) -> dict[str, Any]:
        if change.get("recurs"):
            change["recurs"] = {**await _recurrence(fleet, item(id)), **change["recurs"]}
            if "cron" not in change["recurs"]:
                raise CommandFailed(f"it does not recur: {PARTS_OF_CRON} go with --cron", Exit.USAGE)
        answer = await fleet.call("manage_items", {"operation": "update", "items": [{"id": item(id), **change}]})
        _refused(answer)
        return dict(answer["items"][0])

    changed = at.run(act)
    if json:
        print_json(changed)
    else:
        print(f"{short(changed['id'])}  changed")


def note(
    id: Id,
    key: Annotated[str | None, Parameter(help="Print or write this note; without it, all are printed.")] = None,
    body: Annotated[
        str | None,
        Parameter(help=f"Write this text; without it, the note is printed. {FROM_FILE}", allow_leading_hyphen=True),
    ] = None,
    *,
    phase: Annotated[
        Phase | None, Parameter(help="The phase it belongs to. Default: that of the item, or of the note before.")
    ] = None,
    delete: Annotated[bool, Parameter(help="Delete the note.")] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    if (body is not None or delete) and key is None:
        raise CommandFailed("which note? give its key", Exit.USAGE)
    if delete and body is not None:
        raise CommandFailed("--delete takes no text", Exit.USAGE)
    text = words(body) if body is not None else None

    async def act(fleet: Fleet) -> dict[str, Any]:
        if delete:
            return await fleet.call("manage_notes", {"operation": "delete", "itemId": item(id), "key": key})
        if text is None:
            return await fleet.call("query_notes", {"operation": "list", "itemId": item(id)})
        return await write_note(fleet, item(id), str(key), text, phase)

    answer = at.run(act)
    if text is None and not delete:
        _print_notes(answer["notes"], key, id, json)
        return
    if delete and not answer["deleted"]:
        raise CommandFailed(f"there is no note {key!r}")
    if json:
        print_json(answer)
    else:
        print(f"note {printable(str(key))} {'deleted' if delete else 'written'}")


async def write_note(fleet: Fleet, id: str, key: str, body: str, phase: str | None = None) -> dict[str, Any]:
    """Writes a note, in the phase of the note that it replaces, else of the item's schema, else of the item."""
    context = await fleet.call("get_context", {"itemId": id})
    role_now: Role | str = context["item"]["role"]
    if phase is None:
        roles = {note["key"]: note["role"] for note in context["schema"]}
        here = role_now if role_now in ("queue", "work", "review") else "work"
        phase = roles.get(key, here)
    written = {"itemId": context["item"]["id"], "key": key, "role": phase, "body": body}
    answer = await fleet.call("manage_notes", {"operation": "upsert", "notes": [written]})
    _refused(answer)
    return answer


def _print_notes(notes: list[dict[str, Any]], key: str | None, id: str, json: bool) -> None:
    """Prints notes; the body of a single one alone, so that it can be piped."""
    if key is not None:
        notes = [note for note in notes if note["key"] == key]
        if not notes:
            raise CommandFailed(f"the item {id} has no note {key!r}")
    if json:
        print_json(notes[0] if key is not None else {"notes": notes})
    elif key is not None:
        print("\n".join(printable(line.expandtabs(8)) for line in notes[0]["body"].splitlines()))
    else:
        print("\n".join(line for note in notes for line in note_page(note)).strip("\n"))


def dep_add(
    id: Id,
    blocker: Annotated[str, Parameter(help="What it waits for.", completer=ids)],
    *more: Annotated[str, Parameter(help="What it waits for, too.")],
    unblock_at: Unblock = None,
    relates: Annotated[bool, Parameter(help="They only relate to each other: nothing waits.")] = False,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    # All of them, or none if one is refused.
    if relates and unblock_at:
        raise CommandFailed("--unblock-at: nothing waits with --relates", Exit.USAGE)
    waits, others = item(id), items((blocker, *more), "BLOCKER")

    async def act(fleet: Fleet) -> dict[str, Any]:
        waiting = await full_id(fleet, waits)
        kind = {"type": "RELATES_TO"} if relates else given(unblockAt=unblock_at)
        blockers = [await full_id(fleet, other) for other in others]
        return await _connect(fleet, [{"fromItemId": each, "toItemId": waiting, **kind} for each in blockers])

    answer = at.run(act)
    if json:
        print_json(answer)
    for edge in answer["dependencies"] if not json else ():
        word = "relates to" if relates else "waits for"
        print(f"{short(edge['toItemId'])}  {word} {short(edge['fromItemId'])}")


def dep_rm(
    id: Id,
    blocker: Annotated[str, Parameter(help="What it waits for, or relates to.", completer=ids)],
    *,
    json: AsJson = False,
    at: Connection = HERE,
) -> None:
    named = (item(id), item(blocker, "BLOCKER"))

    async def act(fleet: Fleet) -> int:
        first, other = [await full_id(fleet, each) for each in named]
        ends = ({"fromItemId": other, "toItemId": first}, {"fromItemId": first, "toItemId": other})
        answers = [await fleet.call("manage_dependencies", {"operation": "delete", **each}) for each in ends]
        return sum(answer["deleted"] for answer in answers)

    deleted = at.run(act)
    if not deleted:
        raise CommandFailed("there is no dependency between them")
    if json:
        print_json({"deleted": deleted})
    else:
        print(f"{counted(deleted, 'dependency', 'dependencies')} deleted")


async def _connect(fleet: Fleet, edges: list[dict[str, Any]], made: str = "") -> dict[str, Any]:
    """Creates edges; ``made`` is the item that was just made for them, for the message."""
    answer: dict[str, Any] = {"dependencies": [], "created": 0}
    for begin in range(0, len(edges), _EDGES):
        part = await fleet.call(
            "manage_dependencies", {"operation": "create", "dependencies": edges[begin : begin + _EDGES]}
        )
        _refused(part, f"{made} was added, but without its dependencies: " if made else "")
        answer = {"dependencies": answer["dependencies"] + part["dependencies"], "created": len(edges)}
    return answer


def _refused(answer: dict[str, Any], before: str = "") -> None:
    """Raises CommandFailed with the first refusal of a batch."""
    for failure in answer.get("failures", ()):
        raise CommandFailed(before + as_typed(failure["error"]))
