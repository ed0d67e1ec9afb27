"""What the commands of items print: short lines for people, without colours unless stdout is a terminal.

All text of items is untrusted, so it is made printable before anything else happens to it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.client.held_back import left
from coordinator.toolsets.items import COLUMNS, FACTS, Field, Kind
from coordinator.units import demands_text, money
from coordinator.wording import printable

Json = Mapping[str, Any]

SHORT = 8
"""Hex digits of an id in lists: enough to name it among some thousands of items."""
_COLOURS = {
    "queue": "36",
    "work": "33",
    "review": "35",
    "blocked": "31",
    "terminal": "2",
    "high": "1;31",
    "low": "2",
    "bold": "1",
    "dim": "2",
}
_INDENT = "    "
_IDENTITY = re.compile(r"x-[0-9a-f]{16}")
"""Tags by which imports find items again: nothing for people."""


def colourful() -> bool:
    """Whether stdout takes colours (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, kind: str) -> str:
    """The (printable) text in the colour of its kind."""
    code = _COLOURS.get(kind)
    return f"\x1b[{code}m{text}\x1b[0m" if code and text and colourful() else text


def short(id: str) -> str:
    return printable(id)[:SHORT]


def item_line(item: Json, indent: int = 0) -> str:
    """``550e8400  work      high    Design API schema  #api  (in-progress)  claimed``."""
    uuid = item.get("id") or item.get("itemId") or ""
    role, priority = printable(item.get("role", "")), printable(item.get("priority", ""))
    tags = printable(item.get("tags") or "").split(",")
    said = [f"#{tag}" for tag in tags if tag and not _IDENTITY.fullmatch(tag)]
    said += [f"{field.column}{printable(item[field.name])}" for field in COLUMNS if item.get(field.name)]
    said += [f"({word})"] if (word := _word(item)) else []
    said += ["claimed"] if item.get("isClaimed") else []
    head = f"{short(uuid)}  {paint(f'{role:<8}', role)}  {paint(f'{priority:<6}', priority)}  {'  ' * indent}"
    plain = SHORT + 2 + 8 + 2 + 6 + 2 + 2 * indent
    return head + _fitted(printable(item.get("title", "")), "  ".join(said), plain)


def _word(item: Json) -> str:
    """Its label, or what became of it if its agent has left it: the label is of the work that was begun."""
    if not item.get("abandoned"):
        return printable(item.get("statusLabel") or "")
    attempts = item.get("attempts", {})
    return left(attempts.get("count", 0), attempts.get("max", 0), attempts.get("notBefore", ""))


def _fitted(title: str, more: str, used: int) -> str:
    """Title and the rest, cut to the width of the terminal; whole where stdout is none."""
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - used - (len(more) + 2 if more else 0), 20)
        title = title if len(title) <= room else title[: room - 1] + "…"
    return f"{title}  {paint(more, 'dim')}" if more else title


def block(text: str, indent: str = _INDENT) -> list[str]:
    return [(indent + printable(line.expandtabs(4))).rstrip() for line in text.splitlines()]


def heading(text: str) -> str:
    return paint(printable(text), "bold")


def item_page(context: Json, edges: Iterable[Json], *, everything: bool) -> list[str]:
    """A page about an item.

    Args:
        everything: with its last 10 transitions, instead of the last one.
    """
    item: Json = context["item"]
    lines = [f"{item['id']}  {heading(item['title'])}"]
    label = f" ({word})" if (word := _word(item)) else ""
    facts = [paint(item["role"], item["role"]) + label, f"priority {item['priority']}"]
    facts += [printable(_fact(field, item[field.name])) for field in FACTS if item.get(field.name)]
    lines.append(_INDENT + ", ".join(facts))
    lines.append(f"{_INDENT}created {item['createdAt']}, changed {item['modifiedAt']}")
    lines += [*_times(item), *_usage(item)]
    if claim := context.get("claimDetail"):
        word = "was held" if claim["isExpired"] else "held"
        holds = f", holds {printable(demands_text(claim['resources']))}" if claim.get("resources") else ""
        lines.append(f"{_INDENT}{word} by {printable(claim['claimedBy'])} until {claim['claimExpiresAt']}{holds}")
    if attempts := context.get("attempts"):
        lines += _attempts(attempts)
    if missing := context.get("gateStatus", {}).get("missing"):
        lines.append(f"{_INDENT}needs notes: {printable(', '.join(missing))}")
    if item.get("summary"):
        lines += ["", *block(item["summary"])]
    if item.get("description"):
        lines += ["", *block(item["description"])]
    lines += _edges(item["id"], edges)
    lines += [line for note in context.get("notes", ()) for line in note_page(note)]
    results = context.get("results", ())
    for result in results:
        cut = f" (the beginning of {result['size']} bytes)" if "size" in result else ""
        lines += ["", heading(f"result of {short(result['itemId'])} {result['title']}") + cut]
        lines += block(_text(result["result"]))
    transitions = item.get("transitions", [])[: None if everything else 1]
    if transitions:
        lines += ["", heading("history" if everything else "last change"), *map(transition_line, transitions)]
    return lines


def _fact(field: Field, value: Any) -> str:
    if value is True:
        return field.fact
    if field.kind is Kind.NAMES:
        value = ", ".join(value)
    return f"{field.fact} {demands_text(value) if field.name == 'resources' else value}"


def _times(item: Json) -> list[str]:
    facts = [f"not before {item['notBefore']}"] if item.get("notBefore") else []
    if item.get("dueAt"):
        facts.append(f"due {item['dueAt']}" + (f" ({paint('overdue', 'blocked')})" if item.get("overdue") else ""))
    if how := item.get("recurs"):
        following = f", next {how['nextAt']}" if how.get("nextAt") else ""
        facts.append(f"recurs {printable(how['cron'])} {how['timeZone']}{following}")
    if item.get("recurrenceOf"):
        facts.append(f"occurrence of {short(item['recurrenceOf'])}")
    return [_INDENT + ", ".join(facts)] if facts else []


def _usage(item: Json) -> list[str]:
    """What was used for an item and what is below it, and what may be used."""
    facts = [f"used {amounts(item['usage']['subtree'])}"] if item.get("usage") else []
    if limits := item.get("budget"):
        spent = f" ({paint('spent', 'blocked')})" if item.get("budgetSpent") else ""
        facts.append(f"budget {amounts(limits)}{spent}")
    return [_INDENT + ", ".join(facts)] if facts else []


def amounts(sum: Json) -> str:
    """Cost, tokens and time, those that are there: ``$2.50, 200,000 tokens, 1h 30m``."""
    parts = [money(sum["costMicroUsd"])] if sum.get("costMicroUsd") else []
    parts += [f"{sum['tokens']:,} tokens"] if sum.get("tokens") else []
    if wall := sum.get("wallMs"):
        minutes, seconds = divmod(wall // 1000, 60)
        parts.append(f"{minutes // 60}h {minutes % 60}m" if minutes >= 60 else f"{minutes}m {seconds}s")
    return ", ".join(parts) or "nothing"


def transition_line(way: Json) -> str:
    actor = f" by {printable(way['actor']['id'])}" if way.get("actor") else ""
    summary = f": {printable(way['summary'])}" if way.get("summary") else ""
    return f"{_INDENT}{way['at']}  {way['fromRole']} -> {way['toRole']}  {printable(way['trigger'])}{actor}{summary}"


def note_page(note: Json) -> list[str]:
    by = f", {printable(note['actor']['id'])}" if note.get("actor") else ""
    cut = f", the beginning of {note['size']} bytes" if "size" in note else ""
    head = f"{heading('note ' + note['key'])} ({note['role']}, {note['modifiedAt']}{by}{cut})"
    return ["", head, *block(note.get("body", ""))]


def _attempts(attempts: Json) -> list[str]:
    most = f" of {attempts['max']}" if attempts["max"] else ""
    back = f", offered again {attempts['notBefore']}" if attempts.get("notBefore") else ""
    lines = [f"{_INDENT}attempts {attempts['count']}{most}{back}"]
    for attempt in attempts["last"][:3]:
        by = f" by {printable(attempt['claimedBy'])}" if attempt.get("claimedBy") else ""
        why = f" {attempt['reason']}" if attempt.get("reason") else ""
        detail = f": {printable(attempt['detail'])}" if attempt.get("detail") else ""
        lines.append(f"{_INDENT * 2}{attempt['from']} to {attempt['until']}{by}, {attempt['ended']}{why}{detail}")
    return lines


def _edges(id: str, edges: Iterable[Json]) -> list[str]:
    lines: list[str] = []
    for edge in edges:
        ours = edge["fromItemId"] == id
        other, info = (edge["toItemId"], edge["toItem"]) if ours else (edge["fromItemId"], edge["fromItem"])
        if edge["type"] == "RELATES_TO":
            word = "relates to"
        else:
            word = "blocks" if ours == (edge["type"] == "BLOCKS") else "waits for"
        at = f" to reach {edge['unblockAt']}" if edge.get("unblockAt") else ""
        lines.append(f"{_INDENT}{word} {short(other)} ({info['role']}) {printable(info['title'])}{at}")
    return ["", *sorted(lines)] if lines else []


def _text(value: Any) -> str:
    import msgspec

    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value)).decode()
