"""What readers share: decoding of lines, and text that fits a log line."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import msgspec

from coordinator.runner.protocols import Reading, Stream, Trouble
from coordinator.runner.readers.troubles import trouble_of, wait_of

Json = dict[str, Any]

SHOWN = 120
"""Characters of an event that are shown."""
ERROR = 500
"""Characters of an error."""
DENIALS = 100
"""Denials of a run that are kept."""
_HEAD = 4_000
"""Characters of a text that can matter for one line of it."""
_UNKNOWN_FORM = (AttributeError, KeyError, TypeError, ValueError, IndexError)
"""What a known event in an unknown form raises."""
_MOST_OPEN = 10_000_000
"""Bytes of JSON on several lines."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Colours and other orders to terminals."""

_ERROR = re.compile(rb"(?:\x1b\[[0-9;]*m)*(?:error|fatal|panic)", re.IGNORECASE)
_USAGE = re.compile(
    r"(?:unknown|unexpected|unrecogni[sz]ed|invalid) (?:option|argument|flag|command|value)"
    r"|missing required|too many arguments",
    re.IGNORECASE,
)
"""How command lines refuse their arguments."""


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def one_line(text: object, limit: int) -> str:
    """A text on one line without control characters; longer ones end in an ellipsis."""
    line = " ".join(_CONTROL.sub("", str(text)[:_HEAD]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class PlainReader:
    """Reads output that is plain text: the text is the answer, and says neither success nor usage."""

    KEPT = 20_000
    """Characters of the end of the output that count as the answer."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._tail: deque[bytes] = deque()
        self._size = 0
        self._last = self._stderr = b""

    def line(self, stream: Stream, line: bytes) -> None:
        """Takes a line of output. There may be millions, so what they say is worked out when somebody asks."""
        self._reading.events += 1
        if not line or line.isspace():
            return
        self._last = line[:_HEAD]
        if stream == "stderr":
            self._stderr = self._last
            return
        self._tail.append(line[-self.KEPT :])
        self._size += len(self._tail[-1]) + 1
        while self._size > self.KEPT and len(self._tail) > 1:
            self._size -= len(self._tail.popleft()) + 1

    def reading(self) -> Reading:
        reading = self._reading
        reading.text = b"\n".join(self._tail).decode(errors="replace").rstrip()[-self.KEPT :]
        reading.shown, reading.error = one_line(_text(self._last), SHOWN), one_line(_text(self._stderr), ERROR)
        return reading


class EventReader(ABC):
    """Reads JSON: an object a line, an array of objects, or either on many lines. A subclass takes what it knows of an
    object in ``event``."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._noise = b""
        """The last line that was no event: the only word of a command line that fails before it begins."""
        self._told = False
        """Whether it calls itself an error: then only another one takes its place."""
        self._open: list[bytes] = []
        """Lines of JSON that is not closed yet."""
        self._open_size = 0

    def line(self, stream: Stream, line: bytes) -> None:
        """Takes a line of output; anything unknown or broken counts as an event and is passed over."""
        self._reading.events += 1
        decoded = self._decoded(line) if stream == "stdout" else None
        events = [event for event in (decoded if isinstance(decoded, list) else [decoded]) if isinstance(event, dict)]
        for event in events:
            with contextlib.suppress(*_UNKNOWN_FORM):
                self.event(event)
        if events or not line or line.isspace():
            return
        error = _ERROR.match(line) is not None
        if error or not self._told:
            self._noise, self._told = line[:_HEAD], error
        if stream == "stderr":
            with contextlib.suppress(*_UNKNOWN_FORM):
                self.noise(line)

    def _decoded(self, line: bytes) -> Any:
        """The JSON that ends with this line; None: there is none, or it goes on."""
        if line[:1] in (b"{", b"[") and (decoded := _json(line.rstrip().removesuffix(b","))) is not None:
            self._open, self._open_size = [], 0  # what seemed to be open was noise
            return decoded
        if not self._open and line.rstrip() not in (b"{", b"["):
            return None
        self._open.append(line)
        self._open_size += len(line)
        closed = line.rstrip() in (b"}", b"]")
        decoded = _json(b"\n".join(self._open)) if closed else None
        if closed or self._open_size > _MOST_OPEN:
            self._open, self._open_size = [], 0
        return decoded

    @abstractmethod
    def event(self, event: Json) -> None:
        """Takes an event."""

    def noise(self, line: bytes) -> None:  # noqa: B027 (for most it says nothing)
        """Takes a line of standard error."""

    def reading(self) -> Reading:
        reading = self._reading
        if self._noise and not reading.error and not reading.success:
            reading.error = one_line(_text(self._noise), ERROR)
            if reading.session is None and _USAGE.search(reading.error):
                reading.trouble = "usage"
            elif reading.session is None and trouble_of(reading.error) == "rate_limit":
                reading.trouble, reading.retry_after_seconds = "rate_limit", wait_of(reading.error)
        return reading

    # --- for subclasses

    def show(self, *parts: object) -> None:
        """Sets what is shown of the last event."""
        self._reading.shown = one_line(" ".join(str(part) for part in parts if part), SHOWN)

    def failed(self, message: object, status: object = None, trouble: Trouble | None = None) -> None:
        """Records an error; its kind is read from an HTTP status, else from its words."""
        reading = self._reading
        reading.error = one_line(message, ERROR)
        code = status if isinstance(status, int) and not isinstance(status, bool) else None
        reading.trouble = trouble or trouble_of(str(message)[:_HEAD], code)
        reading.retry_after_seconds = wait_of(str(message)[:_HEAD]) or reading.retry_after_seconds

    def forgive(self) -> None:
        """Drops an error that the agent got over."""
        self._reading.error, self._reading.trouble, self._reading.retry_after_seconds = "", None, None

    def deny(self, what: object) -> None:
        if len(self._reading.denials) < DENIALS:
            self._reading.denials += (one_line(what, SHOWN),)


def _json(text: bytes) -> Any:
    """A value; None: it is noise, or was cut off."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def words(value: object) -> str:
    """A text; empty for what is none."""
    return value if isinstance(value, str) else ""


def whole(value: object) -> int:
    """A count of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def money(value: object) -> float | None:
    """A sum of money; None for what is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(float(value), 9) if number and 0 <= value < 1e9 else None  # type: ignore[arg-type,operator]
