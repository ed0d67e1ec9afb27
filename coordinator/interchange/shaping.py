"""Fits records into the limits of items: unique ids, no cycles, depth, lengths. What is changed is said."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord, label_of

MAX_DEPTH = 3
TITLE, SUMMARY, TEXT_BYTES = 500, 2_000, 500_000
MOST_EDGES = 600
MOST_TAGS = 30
"""An import adds two of its own to an item's 32."""
MOST_NOTES = 500
NOTE_KEY = 200
_NAMED = 5

_Say = Callable[..., None]
"""Notes what was changed, in which record, and the names of what is lost of it. Where something is, all are named."""


def shape(source: ImportSource, below: int = -1) -> None:
    """Makes all records such that items can be made of them, in an order in which parents come first.

    Args:
        below: the depth of the item that they come below; -1: of none.

    Raises:
        ImportProblem: records with one id differ, and it is not known which is the newest.
    """
    most = MAX_DEPTH - 1 - below
    remarks: dict[str, list[tuple[str, str]]] = {}

    def say(what: str, key: str, *lost: str) -> None:
        remarks.setdefault(what, []).append((key, ", ".join(lost)))

    records = _one_of_each(source.records, say)
    for one in records.values():
        _links(one, records, say)
        _lengths(one, say)
    _cut_parent_cycles(records, say)
    _cut_cycles(records, say)
    depths = _depths(records)
    for key, depth in depths.items():
        if depth > most:
            one = records[key]
            one.extra["parent"] = one.parent
            while one.parent is not None and depths[one.parent] >= most:
                one.parent = records[one.parent].parent
            say(f"are deeper than {most}: put below an ancestor, or at the top", key)
    parents = {one.parent for one in records.values()}
    for one in records.values():
        if one.container and not one.status and one.id not in parents:  # else it would be open for ever
            one.state = "done"
    order = sorted(records, key=lambda key: depths[key])
    source.records = [records[key] for key in order]
    for what, found in remarks.items():
        shown = found if any(lost for _, lost in found) else found[:_NAMED]
        named = "; ".join(
            label_of(records[one].title, one) + (f" without {lost}" if lost else "") for one, lost in shown
        )
        more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
        source.remarks.append(f"{len(found)} {what}: {named}{more}")


def _one_of_each(found: Sequence[SourceRecord], say: _Say) -> dict[str, SourceRecord]:
    """Of records with one id the newest: an older one may revive closed work."""
    records: dict[str, SourceRecord] = {}
    unclear: dict[str, str] = {}
    for one in found:
        other = records.setdefault(one.id, one)
        if other is one:
            continue
        say("came more than once; the newest counts", one.id)
        times = [_time(each.updated) for each in (other, one)]
        if other == one:
            continue
        if None in times or times[0] == times[1]:
            unclear[one.id] = f"{one.id} ({other.title!r}, {one.title!r})"
        elif times[1] > times[0]:  # type: ignore[operator]
            records[one.id] = one
    if unclear:
        raise ImportProblem(
            f"several have one id, and it is not known which is the newest: {', '.join(unclear.values())}; "
            "leave one of each in the source"
        )
    return records


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _links(one: SourceRecord, records: Mapping[str, SourceRecord], say: _Say) -> None:
    if one.parent is not None and (one.parent not in records or one.parent == one.id):
        say("have a parent that is not here", one.id, one.parent)
        one.extra["parent"] = one.parent
        one.parent = None
    for links in (one.blockers, one.related):
        kept = [key for key in dict.fromkeys(links) if key in records and key != one.id]
        if away := dict.fromkeys(links).keys() - set(kept):
            say("have links to themselves or to what is not here", one.id, *sorted(away))
        links[:] = kept[:MOST_EDGES]
        if further := kept[MOST_EDGES:]:
            say(f"have more than {MOST_EDGES} links", one.id, *further)


def _lengths(one: SourceRecord, say: _Say) -> None:
    title = " ".join(re.split(r"[\r\n]+", one.title)).strip()
    if not title:
        say("have no title", one.id)
        title = f"({one.id})"
    if len(title) > TITLE:
        say(f"have titles of more than {TITLE} characters: whole in the description", one.id)
        one.description = f"{title}\n\n{one.description}".strip()
        title = title[: TITLE - 1] + "…"
    one.title = title
    if len(one.summary) > SUMMARY:
        say(f"have summaries of more than {SUMMARY} characters: cut", one.id, "its end")
        one.summary = one.summary[: SUMMARY - 1] + "…"
    one.description = _cut(one.description, "its description", one.id, say)
    _notes(one, say)
    if further := one.tags[MOST_TAGS:]:
        say(f"have more than {MOST_TAGS} tags", one.id, *further)
        one.tags = one.tags[:MOST_TAGS]
    if one.complexity is not None and not math.isfinite(one.complexity):
        say("have a complexity that is no number", one.id, repr(one.complexity))
        one.complexity = None
    if one.complexity is not None:
        if not 1 <= one.complexity <= 10 or one.complexity != int(one.complexity):
            one.extra["complexity"] = one.complexity
            say("have a complexity that is no whole number from 1 to 10: the nearest is taken", one.id)
        one.complexity = min(max(round(one.complexity), 1), 10)


def _notes(one: SourceRecord, say: _Say) -> None:
    """Blank notes say nothing. Of keys that are equal when cut, the first one counts."""
    found: dict[str, str] = {}
    lost, cut = list[str](), list[str]()
    for key, body in one.notes.items():
        short = key[:NOTE_KEY]
        if not body.strip():
            continue
        if short in found or len(found) == MOST_NOTES:
            lost.append(repr(key))
            continue
        if short != key:
            cut.append(f"the end of the key {key!r}")
        found[short] = _cut(body, f"the note {short!r}", one.id, say)
    if cut:
        say(f"have notes with keys of more than {NOTE_KEY} characters: cut", one.id, *cut)
    if lost:
        say(f"have more than {MOST_NOTES} notes, or several of one key", one.id, *lost)
    one.notes = found


def _cut(text: str, what: str, key: str, say: _Say) -> str:
    # Lone surrogates come from JSON and cannot be sent.
    data = text.replace("\x00", "").encode(errors="replace")
    if len(data) <= TEXT_BYTES:
        return data.decode()
    say(f"have texts of more than {TEXT_BYTES} bytes: cut", key, f"the end of {what}")
    return data[: TEXT_BYTES - 3].decode(errors="ignore") + "…"


def _cut_parent_cycles(records: Mapping[str, SourceRecord], say: _Say) -> None:
    done: set[str] = set()
    for key in records:
        path: dict[str, None] = {}
        at: str | None = key
        while at is not None and at not in done and at not in path:
            path[at] = None
            at = records[at].parent
        if at is not None and at in path:
            say("are below themselves: put at the top", at)
            records[at].extra["parent"] = records[at].parent
            records[at].parent = None
        done.update(path)


def _cut_cycles(records: Mapping[str, SourceRecord], say: _Say) -> None:
    """Drops one edge of each cycle of blocking edges: the one that closes it in the order of the source."""
    open_, done = set[str](), set[str]()
    for start in records:
        if start in done:
            continue
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(list(records[start].blockers)))]
        open_.add(start)
        while stack:
            key, left = stack[-1]
            blocker = next(left, None)
            if blocker is None:
                stack.pop()
                open_.discard(key)
                done.add(key)
            elif blocker in open_:
                records[key].blockers.remove(blocker)
                other = f"its dependency on {label_of(records[blocker].title, blocker)}"
                say("wait for themselves through others: one dependency is left out", key, other)
            elif blocker not in done:
                open_.add(blocker)
                stack.append((blocker, iter(list(records[blocker].blockers))))


def _depths(records: Mapping[str, SourceRecord]) -> dict[str, int]:
    depths: dict[str, int] = {}
    for key in records:
        path = []
        at: str | None = key
        while at is not None and at not in depths:
            path.append(at)
            at = records[at].parent
        depth = depths[at] if at is not None else -1
        for one in reversed(path):
            depth += 1
            depths[one] = depth
    return depths
