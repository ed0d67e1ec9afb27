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
    for record in records.values():
        _links(record, records, say)
        _lengths(record, say)
    _cut_parent_cycles(records, say)
    _cut_cycles(records, say)
    depths = _depths(records)
    for key, depth in depths.items():
        if depth > most:
            record = records[key]
            record.extra["parent"] = record.parent
            while record.parent is not None and depths[record.parent] >= most:
                record.parent = records[record.parent].parent
            say(f"are deeper than {most}: put below an ancestor, or at the top", key)
    parents = {record.parent for record in records.values()}
    for record in records.values():
        if record.container and not record.status and record.id not in parents:  # else it would be open for ever
            record.state = "done"
    order = sorted(records, key=lambda key: depths[key])
    source.records = [records[key] for key in order]
    for what, cases in remarks.items():
        named_cases = cases if any(lost for _, lost in cases) else cases[:_NAMED]
        named = "; ".join(
            label_of(records[key].title, key) + (f" without {lost}" if lost else "") for key, lost in named_cases
        )
        more = f" and {len(cases) - len(named_cases)} more" if len(cases) > len(named_cases) else ""
        source.remarks.append(f"{len(cases)} {what}: {named}{more}")


def _one_of_each(sent: Sequence[SourceRecord], say: _Say) -> dict[str, SourceRecord]:
    """Of records with one id the newest: an older one may revive closed work."""
    records: dict[str, SourceRecord] = {}
    unclear: dict[str, str] = {}
    for record in sent:
        other = records.setdefault(record.id, record)
        if other is record:
            continue
        say("came more than once; the newest counts", record.id)
        times = [_time(each.updated) for each in (other, record)]
        if other == record:
            continue
        if None in times or times[0] == times[1]:
            unclear[record.id] = f"{record.id} ({other.title!r}, {record.title!r})"
        elif times[1] > times[0]:  # type: ignore[operator]
            records[record.id] = record
    if unclear:
        raise ImportProblem(
            f"several have one id, and it is not known which is the newest: {', '.join(unclear.values())}; "
            "leave one of each in the source"
        )
    return records


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _links(record: SourceRecord, records: Mapping[str, SourceRecord], say: _Say) -> None:
    if record.parent is not None and (record.parent not in records or record.parent == record.id):
        say("have a parent that is not here", record.id, record.parent)
        record.extra["parent"] = record.parent
        record.parent = None
    for links in (record.blockers, record.related):
        kept = [key for key in dict.fromkeys(links) if key in records and key != record.id]
        if away := dict.fromkeys(links).keys() - set(kept):
            say("have links to themselves or to what is not here", record.id, *sorted(away))
        links[:] = kept[:MOST_EDGES]
        if further := kept[MOST_EDGES:]:
            say(f"have more than {MOST_EDGES} links", record.id, *further)


def _lengths(record: SourceRecord, say: _Say) -> None:
    title = " ".join(re.split(r"[\r\n]+", record.title)).strip()
    if not title:
        say("have no title", record.id)
        title = f"({record.id})"
    if len(title) > TITLE:
        say(f"have titles of more than {TITLE} characters: whole in the description", record.id)
        record.description = f"{title}\n\n{record.description}".strip()
        title = title[: TITLE - 1] + "…"
    record.title = title
    if len(record.summary) > SUMMARY:
        say(f"have summaries of more than {SUMMARY} characters: cut", record.id, "its end")
        record.summary = record.summary[: SUMMARY - 1] + "…"
    record.description = _cut(record.description, "its description", record.id, say)
    _notes(record, say)
    if further := record.tags[MOST_TAGS:]:
        say(f"have more than {MOST_TAGS} tags", record.id, *further)
        record.tags = record.tags[:MOST_TAGS]
    if record.complexity is not None and not math.isfinite(record.complexity):
        say("have a complexity that is no number", record.id, repr(record.complexity))
        record.complexity = None
    if record.complexity is not None:
        if not 1 <= record.complexity <= 10 or record.complexity != int(record.complexity):
            record.extra["complexity"] = record.complexity
            say("have a complexity that is no whole number from 1 to 10: the nearest is taken", record.id)
        record.complexity = min(max(round(record.complexity), 1), 10)


def _notes(record: SourceRecord, say: _Say) -> None:
    """Blank notes say nothing. Of keys that are equal when cut, the first one counts."""
    notes: dict[str, str] = {}
    lost, cut = list[str](), list[str]()
    for key, body in record.notes.items():
        short = key[:NOTE_KEY]
        if not body.strip():
            continue
        if short in notes or len(notes) == MOST_NOTES:
            lost.append(repr(key))
            continue
        if short != key:
            cut.append(f"the end of the key {key!r}")
        notes[short] = _cut(body, f"the note {short!r}", record.id, say)
    if cut:
        say(f"have notes with keys of more than {NOTE_KEY} characters: cut", record.id, *cut)
    if lost:
        say(f"have more than {MOST_NOTES} notes, or several of one key", record.id, *lost)
    record.notes = notes


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
        for node in reversed(path):
            depth += 1
            depths[node] = depth
    return depths
