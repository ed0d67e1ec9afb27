"""Short forms of fields that are lists and mappings, for command lines and plans; and of amounts, for people."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

_MOST_UNITS = 9
"""Digits."""
_DEMAND = "must be KEY, KEY=UNITS or KEY=shared, after commas"
_BUDGET = "must be cost=DOLLARS, tokens=NUMBER or time=TIME, after commas, as in cost=2.50,tokens=200000,time=2h"
_MOMENT = "must be a time with a zone, as in 2026-01-01T12:00:00Z, or from now on, as in +30m or +4w"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def demands(text: str) -> list[dict[str, Any]]:
    """Resources as the tools take them: ``gpu=2, repo/app=shared``.

    Raises:
        ValueError: the text has another form; it says which is allowed.
    """
    found: list[dict[str, Any]] = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        key, _, amount = one.partition("=")
        if amount == "shared":
            found.append({"key": key, "mode": "shared"})
        elif amount and not (amount.isdecimal() and len(amount) <= _MOST_UNITS):
            raise ValueError(f"{one!r} {_DEMAND}")
        else:
            found.append({"key": key, **({"units": int(amount)} if amount else {})})
    return found


def budget(text: str) -> dict[str, int]:
    """A budget as the tools take it: ``cost=2.50, tokens=200000, time=2h``. Times are in s, m, h or d.

    Raises:
        ValueError: the text has another form; it says which is allowed.
    """
    found: dict[str, int] = {}
    for one in (part.strip() for part in text.split(",")):
        name, _, value = one.partition("=")
        number = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([smhd]?)", value)
        if name == "cost" and number and not number[2]:
            found["costMicroUsd"] = int(Decimal(number[1]) * 1_000_000)
        elif name == "tokens" and number and not number[2] and "." not in value:
            found["tokens"] = int(value)
        elif name == "time" and number and number[2]:
            found["wallMs"] = int(Decimal(number[1]) * 1000 * _SECONDS[number[2]])
        else:
            raise ValueError(f"{one!r} {_BUDGET}")
    return found


def moment(text: str) -> str:
    """A time as the tools take it: ``2026-12-01T09:00:00Z``, or ``+4w`` from now on.

    Raises:
        ValueError: the text has another form; it says which is allowed.
    """
    text = text.strip()
    if not re.fullmatch(r"\+(?:[0-9]{1,9}[smhdw])+", text):
        try:
            zone = datetime.fromisoformat(text).tzinfo
        except ValueError:
            zone = None
        if zone is None:
            raise ValueError(f"{text!r} {_MOMENT}")
    return text


def money(micro_usd: int) -> str:
    """An amount of US dollars for people: ``$1,250.40``; of less than a cent all digits, ``$0.0003``."""
    dollars = micro_usd / 1e6
    return f"${dollars:.6f}".rstrip("0") if 0 < micro_usd < 10_000 else f"${dollars:,.2f}"
