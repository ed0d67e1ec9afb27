"""How people write and read amounts: durations, sizes, money, and the short forms of fields with such values.

A duration is numbers with units, as in ``90s``, ``1.5h`` or ``1d12h``: s, m, h, d or w. Settings, options of commands,
plans, task lists and tools all read it here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER = r"[0-9]{1,12}(\.[0-9]{1,6})?"
_DURATION = rf"({_NUMBER}[smhdw])+"
DURATION_PATTERN = rf"^({_NUMBER}|{_DURATION})\Z"
"""Of durations of which a number alone is seconds, for schemas."""
DURATION = "a time such as 90s, 15m, 1.5h or 1d12h"
"""What is allowed as a duration, for messages."""
FROM_NOW = re.compile(r"\+(?:[0-9]{1,9}[smhdw])+")
"""A time from now on: ``+`` and a duration of whole numbers."""
MOMENT = "must be a time with a zone, as in 2026-01-01T12:00:00Z, or from now on, as in +30m or +4w"
"""What is allowed as a time, for messages."""
_DEMAND = "must be KEY, KEY=UNITS or KEY=shared, after commas"
_BUDGET = "must be cost=DOLLARS, tokens=NUMBER or time=TIME, after commas, as in cost=2.50,tokens=200000,time=2h"
_RECURS = {"zone": "timeZone", "missed": "missed", "overlap": "overlap"}
_AMOUNT = {"cost": _NUMBER, "tokens": r"[0-9]{1,12}", "time": _DURATION}
_USAGE = "|".join(f"{name}={_AMOUNT[name]}" for name in ("cost", "tokens"))
USAGE_PATTERN = rf"^({_USAGE})(, *({_USAGE}))*\Z"
"""Of budgets without a time, for schemas."""


def milliseconds(text: str, *, alone: bool = False) -> int:
    """The milliseconds of a duration; a part of one counts as one.

    Args:
        alone: whether a number without a unit is one, of seconds.

    Raises:
        ValueError: the text is no duration; it says what is allowed.
    """
    text = text.strip()
    if alone and re.fullmatch(_NUMBER, text):
        text += "s"
    if not re.fullmatch(_DURATION, text):
        raise ValueError(f"must be {DURATION}, not {text!r}")
    parts = re.findall(r"([0-9.]+)(\w)", text)
    return math.ceil(sum(Decimal(number) * SECONDS[unit] * 1_000 for number, unit in parts))


def duration(ms: int) -> str:
    """The text that ``milliseconds`` reads as so many: ``1d12h``."""
    rest, parts = ms // 1_000, ""
    for unit, size in SECONDS.items():
        count, rest = divmod(rest, size)
        part = Decimal(ms % 1_000) / 1_000 + count if unit == "s" else count
        parts += f"{part}{unit}" if part else ""
    return parts or "0s"


def clock(ms: int) -> str:
    """A time worked, as h:mm:ss."""
    minutes, seconds = divmod(ms // 1_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def size(count: float) -> str:
    """A number of bytes in at most four digits: ``12.34 KiB``."""
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            break
        count, unit = count / 1024, larger
    return f"{count:,.4g} {unit}"


def money(micro_usd: int) -> str:
    """An amount of US dollars: ``$1,250.40``; of less than a cent all digits, ``$0.0003``."""
    dollars = micro_usd / 1e6
    return f"${dollars:.6f}".rstrip("0") if 0 < micro_usd < 10_000 else f"${dollars:,.2f}"


def moment(text: str) -> str:
    """A time as the tools take it: ``2026-12-01T09:00:00Z``, or ``+4w`` from now on.

    Raises:
        ValueError: the text has another form; it says which is allowed.
    """
    text = text.strip()
    if not FROM_NOW.fullmatch(text):
        try:
            zone = datetime.fromisoformat(text).tzinfo
        except ValueError:
            zone = None
        if zone is None:
            raise ValueError(f"{text!r} {MOMENT}")
    return text


def demands(text: str) -> list[dict[str, Any]]:
    """Resources as the tools take them: ``gpu=2, repo/app=shared``. Raises as ``moment``."""
    found: list[dict[str, Any]] = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        key, _, amount = one.partition("=")
        if amount == "shared":
            found.append({"key": key, "mode": "shared"})
        elif amount and not re.fullmatch(r"[0-9]{1,9}", amount):
            raise ValueError(f"{one!r} {_DEMAND}")
        else:
            found.append({"key": key, **({"units": int(amount)} if amount else {})})
    return found


def demands_text(given: Iterable[Mapping[str, Any]]) -> str:
    """The text that ``demands`` reads so."""
    amounts = [("shared" if one.get("mode") == "shared" else one.get("units", 1), one["key"]) for one in given]
    return ", ".join(key if amount == 1 else f"{key}={amount}" for amount, key in amounts)


def budget(text: str) -> dict[str, int]:
    """A budget as the tools take it: ``cost=2.50, tokens=200000, time=2h``. Raises as ``moment``."""
    found: dict[str, int] = {}
    for one in (part.strip() for part in text.split(",")):
        name, _, value = one.partition("=")
        if not re.fullmatch(_AMOUNT.get(name, "(?!)"), value):
            raise ValueError(f"{one!r} {_BUDGET}")
        if name == "cost":
            found["costMicroUsd"] = int(Decimal(value) * 1_000_000)
        else:
            found |= {"tokens": int(value)} if name == "tokens" else {"wallMs": milliseconds(value)}
    return found


def budget_text(given: Mapping[str, Any]) -> str:
    """The text that ``budget`` reads so."""
    cost, tokens, time = given.get("costMicroUsd"), given.get("tokens"), given.get("wallMs")
    parts = [f"cost={Decimal(cost) / 1_000_000:f}"] if cost is not None else []
    parts += [f"tokens={tokens}"] if tokens is not None else []
    return ", ".join(parts + ([f"time={duration(time)}"] if time is not None else []))


def recurrence(text: str) -> dict[str, str]:
    """When something recurs, as the tools take it: ``0 9 * * MON-FRI; zone=Europe/Berlin``. Raises as ``moment``."""
    cron, *parts = (part.strip() for part in text.split(";"))
    found = {"cron": cron}
    for one in parts:
        name, _, value = one.partition("=")
        if name not in _RECURS or not value:
            raise ValueError(f"{one!r} must be zone=ZONE, missed=skip, one or all, or overlap=skip or allow")
        found[_RECURS[name]] = value
    return found


def recurrence_text(given: Mapping[str, Any]) -> str:
    """The text that ``recurrence`` reads so; what a plain cron expression means is left out."""
    plain = {"timeZone": "UTC", "missed": "one", "overlap": "skip"}
    more = [f"; {name}={given[of]}" for name, of in _RECURS.items() if given.get(of, plain[of]) != plain[of]]
    return f"{given['cron']}{''.join(more)}"
