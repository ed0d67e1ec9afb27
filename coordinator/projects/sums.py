"""Sums of usage of a project by day, agent and model: in the format of whole projects, and as the store has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime

from msgspec import UNSET

from coordinator.projects import native
from coordinator.projects.errors import BadFile
from coordinator.toolsets.items import MOST, NONE, Sum, plus, sum_of

_KINDS: dict[str, native.By] = {"d": "day", "a": "agent", "m": "model"}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}
_EPOCH = date(1970, 1, 1).toordinal()


def written(entries: Mapping[str, str]) -> Iterator[native.Usage]:
    """The lines of what the store has in ``usage`` (``lua/usage/usage.lua``), days first, by their names."""
    for letter, by in _KINDS.items():
        for field in sorted(field for field in entries if field[0] == letter):
            total, _, last = entries[field].partition(" ")
            line = native.Usage(by=by, name=field[1:], used=shown(total))
            if by == "day":
                line.name = _date(field[1:])
            if last:
                day, _, of_day = last.partition(":")
                line.last_day, line.used_on_last_day = _date(day), shown(of_day)
            yield line


def stored(lines: Iterable[native.Line]) -> dict[str, str]:
    """What the store has of a project's usage: the fields and values of ``usage``; none if nothing was used.

    What items have beyond the sums by day, agent and model is nobody's, of the day of the export: files of version 1 do
    not have these sums.

    Raises:
        BadFile: they are not consistent.
    """
    sums: dict[str, str] = {}
    totals: dict[str, Sum] = defaultdict(lambda: NONE)
    roots, exported = NONE, 0
    for line in lines:
        if isinstance(line, native.Project):
            exported = int(datetime.fromisoformat(line.exported_at).timestamp() // 86_400)
        elif isinstance(line, native.Item) and line.parent_id is UNSET:
            for used in (line.usage, line.usage_below):
                roots = roots if used is UNSET else plus(roots, _parts(used))
        elif isinstance(line, native.Usage):
            field = _LETTERS[line.by] + (str(_day(line.name)) if line.by == "day" else line.name)
            if field in sums:
                raise BadFile(f"the usage by {line.by} has {line.name!r} twice")
            sums[field] = text(line.used)
            if line.by == "agent":
                day, of_day = line.last_day or "1970-01-01", line.used_on_last_day or native.UsageSum()
                sums[field] += f" {_day(day)}:{text(of_day)}"
            totals[line.by] = plus(totals[line.by], _parts(line.used))
    if len({totals[by] for by in _LETTERS}) > 1:
        raise BadFile("the usage by day, by agent and by model does not add up to the same")
    beyond = tuple(max(0, root - part) for root, part in zip(roots, totals["day"], strict=True))
    if any(beyond):
        for field in (f"d{exported}", "m"):
            sums[field] = _text(plus(sum_of(sums.get(field)), beyond))
        total, _, last = sums.get("a", "").partition(" ")
        sums["a"] = f"{_text(plus(sum_of(total or None), beyond))} {last or f'0:{_text(NONE)}'}"
    return {**sums, "p": _text(plus(totals["day"], beyond))} if sums else {}


def shown(stored: str) -> native.UsageSum:
    return native.UsageSum(**dict(zip(native.UsageSum.__struct_fields__, sum_of(stored), strict=True)))


def text(used: native.UsageSum) -> str:
    """A sum of the format, as the store has it."""
    return _text(_parts(used))


def _text(parts: Sum) -> str:
    return ",".join(str(min(part, MOST)) for part in parts)


def _parts(used: native.UsageSum) -> Sum:
    return tuple(getattr(used, part) for part in native.UsageSum.__struct_fields__)


def _date(day: str) -> str:
    return date.fromordinal(_EPOCH + int(day)).isoformat()


def _day(name: str) -> int:
    try:
        day = date.fromisoformat(name).toordinal() - _EPOCH
    except ValueError:
        day = -1
    if day < 0:
        raise BadFile(f"usage: {name!r} must be a day, as 2026-01-31")
    return day
