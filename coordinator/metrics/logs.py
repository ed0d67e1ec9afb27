"""Structured logs on stderr: JSON for machines, aligned text for people, secrets in neither.

Our code logs through ``structlog.get_logger()``. Lines that libraries write through ``logging`` get the same form. All
lines of one request have the same ``request_id``. If calls and steps are traced, ``trace_id`` and ``span_id`` name the
span that a line belongs to.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from coordinator.metrics.throttled import ThrottledWarnings

SECRET_KEYS = frozenset({"authorization", "password", "proof", "secret", "token"})
"""The value of a key that contains one of these words is hidden."""

HIDDEN = "***"

LONGEST = 20_000
"""Of a text with more characters, the middle is left out."""

_CHATTY = (
    "asyncio",
    "httpcore2",
    "httpx",
    "httpx2",
    "mcp",
    "rq.scheduler",
    "rq.worker",
    "sse_starlette",
    "uvicorn.error",
)
"""Libraries whose lines below the level warning only repeat our own."""

_QUOTING = ("mcp.client.stdio", "mcp.client.streamable_http")
"""Libraries whose exceptions quote the output of foreign servers, which may hold a secret."""

_TALKATIVE = ("mcp.shared.jsonrpc_dispatcher", "uvicorn.error")
"""Loggers that malformed HTTP and disconnecting clients can flood."""

_FIRST_KEYS = ("timestamp", "level", "slot", "event")

_SECRET_KEY = re.compile("|".join(sorted(SECRET_KEYS)), re.IGNORECASE)
# Each pattern must take linear time: a logged text may be as long as callers like.
_SECRET_IN_TEXT = (
    (re.compile(r"(?P<keep>[a-z][a-z0-9+.-]{0,30}://[^\s/@:]*:)[^\s/@]+(?=@)", re.IGNORECASE), r"\g<keep>" + HIDDEN),
    (
        re.compile(r"(?P<keep>[?&](?:sentinel_)?(?:password|token|secret)=)[^\s&#]+", re.IGNORECASE),
        r"\g<keep>" + HIDDEN,
    ),
    (re.compile(r"(?P<keep>\bbearer\s+)[\w.~+/=-]+", re.IGNORECASE), r"\g<keep>" + HIDDEN),
)


def configure(
    level: str,
    form: Literal["auto", "console", "json"],
    *,
    stream: TextIO | None = None,
    context: Mapping[str, str] | None = None,
) -> None:
    """Sets up logging for this process; to be called once, before anything is logged.

    Args:
        level: least important level that is written: debug, info, warning, error.
        form: ``auto`` is console on a terminal, else JSON.
        stream: where lines go; stderr by default.
        context: added to every line of the process, e.g. its slot.
    """
    out = stream if stream is not None else sys.stderr
    if form == "auto":
        form = "console" if out.isatty() else "json"
    always = dict(context or {})

    # Not a context variable, because threads that libraries start do not have it.
    def add_always(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        return {**always, **event}

    shared: list[Processor] = [
        add_always,
        structlog.contextvars.merge_contextvars,
        add_trace,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Exceptions become text, without local variables, before secrets are looked for.
    last: list[Processor] = [structlog.processors.format_exc_info, hide_secrets]
    if form == "console":
        last += [show_controls, structlog.dev.ConsoleRenderer(colors=out.isatty())]
    else:
        last += [_in_order, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.captureWarnings(True)
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(root.level, logging.WARNING))
    for quoting in _QUOTING:
        logging.getLogger(quoting).addFilter(_without_exception)
    for talkative in _TALKATIVE:
        logging.getLogger(talkative).addFilter(_seldom)


def _without_exception(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


warn = ThrottledWarnings()
"""Logs what talkative libraries say."""


def _seldom(record: logging.LogRecord) -> bool:
    """Logs a library's warning as one of our throttled ones."""
    if record.levelno != logging.WARNING or record.exc_info:
        return True
    warn(f"{record.name}:{record.lineno}", record.getMessage(), library=record.name)
    return False


_current: Callable[[], tuple[str, str] | None] | None = None


def name_spans(current: Callable[[], tuple[str, str] | None] | None) -> None:
    """Adds trace and span to log lines from now on, as far as ``current`` knows them; None: no longer."""
    global _current
    _current = current


def add_trace(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Structlog processor: adds the trace and span that a line belongs to, if any."""
    if _current is not None and (ids := _current()) is not None:
        event["trace_id"], event["span_id"] = ids
    return event


def hide_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Structlog processor: hides values by their key, and credentials inside any text."""
    return {key: HIDDEN if _SECRET_KEY.search(key) else _clean(value) for key, value in event.items()}


def show_controls(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Structlog processor: writes control characters as escapes, so that no text steers a terminal or forges a line.

    Line breaks stay in tracebacks only.
    """
    return {key: _visible(value, "\n" if key == "exception" else "") for key, value in event.items()}


def _visible(value: object, kept: str) -> object:
    if not isinstance(value, str) or value.isprintable():
        return value  # other values are shown as their repr, which escapes them
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode() for one in value)


def _in_order(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Moves the keys that every line has to its beginning."""
    return {**{key: event[key] for key in _FIRST_KEYS if key in event}, **event}


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]} [...] {text[-longest // 2 :]}"


def _clean(value: object) -> object:
    if isinstance(value, str):
        # Cut twice. The first cut bounds the work, but may cut a credential in two; the second removes what is left.
        value = _shortened(value, 10 * LONGEST)
        for pattern, replacement in _SECRET_IN_TEXT:
            value = pattern.sub(replacement, value)
        return _shortened(value, LONGEST)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(key, str) and _SECRET_KEY.search(key) else _clean(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_clean(inner) for inner in value]
    if value is None or isinstance(value, (int, float, bool)):
        return value
    return _clean(str(value))
