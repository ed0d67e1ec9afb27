"""What the errors of providers mean, by HTTP status or by their words, and how long they ask to wait."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from coordinator.runner.protocols import Trouble
from coordinator.units import SECONDS

LONGEST_WAIT = 8 * 86_400.0
"""Seconds: weekly limits are the longest; what is longer was misread."""

_STATUS = re.compile(
    r"(?:status(?: code)?|error|http|code|rejected)\b[^0-9\n]{0,12}\b([45]\d\d)\b|^\s*([45]\d\d) ", re.IGNORECASE
)
_OF_AN_ITEM = (
    r"(?:context|tokens?|turns?|steps?|iterations?|retry|retries|attempts?|recursion|depth|stack|time|memory|disk|output"
    r"|input|length|size|line|characters?|window|file)"
)
"""What a limit is of that lies in the work on one item: the next one may keep it."""
_WORDS: tuple[tuple[Trouble, re.Pattern[str]], ...] = (
    (
        "rate_limit",
        re.compile(
            r"rate.?limit|usage limit|spend limit|hit your .{0,30}limit|quota|too many requests|resource.?exhausted"
            r"|\b(?:hours?|session|daily|weekly|monthly|account|plan|subscription|messages?|requests?) limit\b"
            rf"|(?<![\w-])(?!{_OF_AN_ITEM}\b)[\w-]+ limit (?:has been |was |is )?(?:reached|exceeded|hit)\b"
            r"|^limit reached|limit will reset"
            r"|credit balance|insufficient.?(?:funds|credits)|billing|out of .{0,20}credits",
            re.IGNORECASE,
        ),
    ),
    (
        "auth",
        re.compile(
            r"unauthori[sz]ed|authentication|failed to authenticate|(?:invalid|incorrect|missing|no) .{0,20}api.?key"
            r"|not logged in|please (?:run )?/login|log in|login required|permission_denied|forbidden"
            r"|token (?:has )?expired|environment variable: ?`?\w*(?:KEY|TOKEN)",
            re.IGNORECASE,
        ),
    ),
    (
        "provider",
        re.compile(
            r"overloaded|high demand|internal server error|bad gateway|service unavailable|gateway time-?out"
            r"|stream disconnected|connection (?:error|refused|reset|closed)|error sending request"
            r"|fetch failed|network error|timed? ?out|econn\w+|enotfound|server-side issue|temporarily unavailable",
            re.IGNORECASE,
        ),
    ),
    ("usage", re.compile(r"model .{0,80}(?:not found|does not exist|not supported)|unknown model", re.IGNORECASE)),
)
_SPAN = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|[smhdw])(?![a-z])",
    re.IGNORECASE,
)
_IN = re.compile(
    r"(?:try again|retry(?:.?after|.?delay)?|resets?(?:-\w+)?|available|wait)[\"']?\s*(?:in|after|for)?:?\s*[\"']?"
    r"((?:\d+(?:\.\d+)?\s*[a-z]+[,\s]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"retry.?after\D{0,4}(\d+)(?!\s*[a-z\d])", re.IGNORECASE)
_EPOCH = re.compile(r"\|(\d{10})\b")
_DATE_TIME = re.compile(
    r"(?:try again at|resets?(?: at)?|until):?\s+"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s?(Z|UTC|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?:try again at|resets?(?: at)?)\s+"
    r"(?:(?P<date>[A-Z][a-z]{2,8} \d{1,2})(?:st|nd|rd|th)?,?(?: (?P<year>\d{4}))?,?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]m)\b(?:\s*\((?P<zone>[A-Za-z_]+(?:/[A-Za-z_]+)*)\))?",
    re.IGNORECASE,
)


def trouble_of(message: str, status: int | None = None) -> Trouble:
    """The kind of an error, by its HTTP status, else by its words."""
    if status is None and (match := _STATUS.search(message)):
        status = int(match[1] or match[2])
    by_words = next((kind for kind, words in _WORDS if words.search(message)), None)
    if status in (402, 429):
        return "rate_limit"
    if status in (401, 403):
        return "rate_limit" if by_words == "rate_limit" else "auth"
    if status == 408 or (status is not None and status >= 500):
        return "provider"
    if status == 404:
        return "usage"
    return by_words or "error"


def wait_of(message: str, now: float | None = None) -> float | None:
    """The seconds after which an error says that it is over, if it does; ``now`` is Unix time, of the host's clock."""
    now = time.time() if now is None else now
    seconds: float | None = None
    if match := _EPOCH.search(message):
        seconds = float(match[1]) - now
    elif match := _IN.search(message):
        spans = [float(number) * _seconds(unit) for number, unit in _SPAN.findall(match[1])]
        seconds = sum(spans) if spans else None
    elif match := _HEADER.search(message):
        seconds = float(match[1])
    if seconds is None and (match := _DATE_TIME.search(message)):
        seconds = _until_date_time(match, now)
    if seconds is None and (match := _CLOCK.search(message)):
        seconds = _until_clock(match, now)
    return seconds if seconds is not None and 0 < seconds <= LONGEST_WAIT else None


def _seconds(unit: str) -> float:
    unit = unit.lower()
    return 0.001 if unit.startswith(("ms", "milli")) else SECONDS[unit[0]]


def _until_clock(match: re.Match[str], now: float) -> float | None:
    """Seconds until a time of day, today or tomorrow, or of a day that is named, in the next year if it has passed."""
    try:
        zone = ZoneInfo(match["zone"]) if match["zone"] else None
        here = datetime.fromtimestamp(now, zone).astimezone(zone)
        hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "pm" else 0)
        then = here.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
        if match["date"]:
            month, day = match["date"].split()
            named = datetime.strptime(f"{month[:3]} {day} {match['year'] or here.year}", "%b %d %Y")  # noqa: DTZ007
            then = then.replace(year=named.year, month=named.month, day=named.day)
            if then <= here and not match["year"]:
                then = then.replace(year=here.year + 1)
        elif then <= here:
            then += timedelta(days=1)
    except (ValueError, KeyError, OSError):  # no such time, or zone
        return None
    return then.timestamp() - now


def _until_date_time(match: re.Match[str], now: float) -> float | None:
    """Seconds until a date with a time, in the host's zone if it names none."""
    try:
        zone = (match[2] or "").upper().replace("UTC", "Z")
        return datetime.fromisoformat(match[1].replace(" ", "T") + zone).timestamp() - now
    except (ValueError, OverflowError):
        return None
