"""``fleet items start``, ``done``, ``block``, ``answer``, ``resume``, ``retry``, ``cancel``, ``reopen``, ``claim``,
``release``.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.connection import HERE, Connection
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.items.arguments import FROM_FILE, AsJson, Fence, Id, Ids, Summary, given, item, items, words
from coordinator.cli.items.calls import advance, complain
from coordinator.cli.items.children import asked, complete_below, is_named, parents_among
from coordinator.cli.items.options import ANY, Selector
from coordinator.cli.items.tables import short
from coordinator.cli.items.writing import write_note
from coordinator.cli.terminal import print_json
from coordinator.client import Fleet
from coordinator.client.held_back import described
from coordinator.wording import printable

_LONGEST_WAIT = 50
_QUESTION = re.compile(r"question-(\d{1,3})")


def start(*ids: Ids, summary: Summary = None, fence: Fence = None, json: AsJson = False, at: Connection = HERE) -> int:
    return _advance(at, ids, "start", "started", json, summary=summary, fenceToken=fence)


def done(
    *ids: Ids,
    result: Annotated[
        str | None,
        Parameter(help=f"What came of it: text. {FROM_FILE}", allow_leading_hyphen=True),
    ] = None,
    result_json: Annotated[str | None, Parameter(help="The same as JSON.", allow_leading_hyphen=True)] = None,
    alone: Annotated[bool, Parameter(help="Leave open children as they are; else this asks.")] = False,
    with_children: Annotated[bool, Parameter(help="Complete everything below, too, before.")] = False,
    summary: Summary = None,
    fence: Fence = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    if alone and with_children:
        raise CommandFailed("give --alone or --with-children, not both", Exit.USAGE)
    if result is not None and result_json is not None:
        raise CommandFailed("give --result or --result-json, not both", Exit.USAGE)
    value: Any = words(result) if result is not None else None
    if result_json is not None:
        try:
            value = msgspec.json.decode(words(result_json))
        except msgspec.MsgspecError as error:
            raise CommandFailed(f"--result-json is not JSON: {error}", Exit.USAGE) from None
    named, transition = items(ids), given(trigger="complete", summary=summary, fenceToken=fence, result=value)
    parents = [] if alone else at.run(lambda fleet: parents_among(fleet, named))
    below = parents if with_children or (parents and asked(parents)) else []

    async def act(fleet: Fleet) -> int:
        completed, refused = [], []
        for parent in below:
            results, ended = await complete_below(fleet, parent)
            completed += results
            refused += [] if ended else [parent]
        left = [id_ for id_ in named if not any(is_named(parent.id, (id_,)) for parent in refused)]
        code = await advance(fleet, left, transition, json, "done", completed)
        return Exit.FAILED if refused else code

    return at.run(act)


def block(*ids: Ids, summary: Summary = None, fence: Fence = None, json: AsJson = False, at: Connection = HERE) -> int:
    return _advance(at, ids, "block", "blocked", json, summary=summary, fenceToken=fence)


def resume(*ids: Ids, summary: Summary = None, fence: Fence = None, json: AsJson = False, at: Connection = HERE) -> int:
    return _advance(at, ids, "resume", "resumed", json, summary=summary, fenceToken=fence)


def cancel(*ids: Ids, summary: Summary = None, fence: Fence = None, json: AsJson = False, at: Connection = HERE) -> int:
    return _advance(at, ids, "cancel", "cancelled", json, summary=summary, fenceToken=fence)


def reopen(*ids: Ids, summary: Summary = None, json: AsJson = False, at: Connection = HERE) -> int:
    return _advance(at, ids, "reopen", "reopened", json, summary=summary)


def answer(
    id: Id,
    text: Annotated[str, Parameter(help=f"The answer. {FROM_FILE}", allow_leading_hyphen=True)],
    *,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    said = words(text)
    if not said.strip():
        raise CommandFailed("the answer is blank", Exit.USAGE)

    async def act(fleet: Fleet) -> int:
        blocked = await fleet.call("query_items", {"operation": "get", "id": item(id)})
        if blocked["role"] != "blocked":
            raise CommandFailed(f"{short(blocked['id'])} waits for no answer: its role is {blocked['role']}")
        listed = {"operation": "list", "itemId": blocked["id"], "includeBody": False}
        notes = (await fleet.call("query_notes", listed))["notes"]
        # As the tool work_ask numbers them (coordinator.toolsets.worker).
        numbers = [int(match[1]) for note in notes if (match := _QUESTION.fullmatch(note["key"]))]
        key = f"answer-{max(numbers)}" if numbers else "answer"
        # The note first: whoever is handed the item by the resume reads it.
        await write_note(fleet, blocked["id"], key, said, blocked.get("previousRole"))
        return await advance(fleet, [blocked["id"]], {"trigger": "resume", "summary": "answered"}, json, "answered")

    return at.run(act)


def retry(*ids: Ids, summary: Summary = None, json: AsJson = False, at: Connection = HERE) -> int:
    named = items(ids)

    async def act(fleet: Fleet) -> int:
        quarantined, code = [], Exit.OK
        for name in named:
            record = await fleet.call("query_items", {"operation": "get", "id": name})
            if record["role"] == "blocked":
                quarantined.append(record["id"])
            elif record.get("attempts", {}).get("notBefore"):
                # 0 ends the back-off that runs; the field itself is to stay as it was.
                for seconds in (0, record.get("retryBackoffSeconds")):
                    change = {"id": record["id"], "retryBackoffSeconds": seconds}
                    await fleet.call("manage_items", {"operation": "update", "items": [change]})
                print(f"{short(record['id'])}  offered again")
            else:
                complain(name, f"has nothing to retry: its role is {record['role']}, and it is in no back-off")
                code = Exit.FAILED
        if quarantined:
            trigger = given(trigger="resume", summary=summary)
            code = Exit(max(code, await advance(fleet, quarantined, trigger, json, "offered again")))
        return code

    return at.run(act)


def claim(
    id: Annotated[str | None, Parameter(help="The item; without it, the best one that is offered.")] = None,
    *,
    selector: Selector = ANY,
    ttl: Annotated[int, Parameter(help="Seconds until the claim ends; claim again to renew it. [1 to 86400]")] = 900,
    wait: Annotated[int, Parameter(help="Without id: seconds to wait for an item. [0 to 50]")] = 0,
    fence: Fence = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    check_range("--wait", wait, 0, _LONGEST_WAIT)
    check_range("--ttl", ttl, 1, 86_400)
    entry: dict[str, Any] = given(ttlSeconds=ttl, fenceToken=fence)
    if id is not None:
        if selector != ANY or wait:
            raise CommandFailed(
                "an ID goes without --wait and what selects items (--tags, --parent, --type, --priority, --ancestor)",
                Exit.USAGE,
            )
        entry["itemId"] = item(id)
    else:
        entry["selector"] = selector.given()
    answer = at.run(lambda fleet: fleet.call("claim_item", {"claims": [entry], "waitMs": wait * 1000}))
    (result,) = answer["claimResults"]
    if json:
        print_json(result)
    elif result["outcome"] == "success":
        role = f", takeover in {result['role']}" if result.get("takeover") else ""
        print(f"{result['itemId']}  claimed until {result['claimExpiresAt']}, fence {result['fenceToken']}{role}")
        if result.get("ready") is False:
            complain(result["itemId"], result.get("reason", "is not ready"))
        if result.get("stop"):
            complain(result["itemId"], f"stop: {result['stopReason']}")
    else:
        complain(result.get("itemId", "claim"), _why(result))
    return Exit.OK if result["outcome"] == "success" else Exit.FAILED


def release(
    *ids: Ids,
    reason: Annotated[
        Literal["failed", "gave_up", "hopeless", "handed_back"] | None,
        Parameter(help="failed and gave_up count as an attempt on an item in work or review; hopeless quarantines it."),
    ] = None,
    detail: Annotated[str | None, Parameter(help="With a reason: more about it, up to 500 characters.")] = None,
    fence: Fence = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    more = given(reason=reason, detail=detail, fenceToken=fence)
    entries = [{"itemId": id_, **more} for id_ in items(ids)]
    answer = at.run(lambda fleet: fleet.call("claim_item", {"releases": entries}))
    results = answer["releaseResults"]
    if json:
        print_json(answer)
    for result in results if not json else ():
        if result["outcome"] == "success":
            print(f"{short(result['itemId'])}  released")
        else:
            complain(result["itemId"], result.get("error") or result["outcome"].replace("_", " "))
    return Exit.OK if all(result["outcome"] == "success" for result in results) else Exit.FAILED


def _advance(at: Connection, ids: tuple[str, ...], trigger: str, word: str, json: bool, **more: Any) -> int:
    named = items(ids)
    return at.run(lambda fleet: advance(fleet, named, {"trigger": trigger, **given(**more)}, json, word))


def _why(result: dict[str, Any]) -> str:
    if result["outcome"] == "no_match":
        why = described(result.get("heldBack"))
        return f"nothing is offered{f': {why}' if why else ''}"
    if result["outcome"] == "resource_busy":
        return f"busy: {', '.join(demand['key'] for demand in result['resources'])}"
    if result["outcome"] == "already_claimed":
        return f"another agent holds it, for up to {result.get('retryAfterMs', 0) / 1000:.0f} s"
    return printable(result.get("error") or result.get("reason") or result["outcome"].replace("_", " "))
