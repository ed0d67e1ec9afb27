"""Logs are structured, carry the request id, and never hold a secret."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from coordinator.metrics import logs
from coordinator.metrics.throttled import ThrottledWarnings


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Forgets the context of log lines. (The set-up of logging is restored after every test.)"""
    yield
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_carry_context_and_request_id() -> None:
    out = io.StringIO()
    logs.configure("info", "json", stream=out, context={"slot": "fe-0"})
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        structlog.get_logger("coordinator.x").info("claimed", item="i-1", count=3)
    structlog.get_logger("coordinator.x").debug("not written")
    (line,) = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "claimed",
        "item": "i-1",
        "count": 3,
        "slot": "fe-0",
        "request_id": "r-1",
        "level": "info",
        "logger": "coordinator.x",
    }


def test_lines_name_their_span_while_tracing_is_on() -> None:
    out = io.StringIO()
    logs.configure("info", "json", stream=out)
    found: list[tuple[str, str] | None] = [None]
    logs.name_spans(lambda: found[0])
    try:
        structlog.get_logger("coordinator.x").info("elsewhere")
        found[0] = "a" * 32, "b" * 16
        structlog.get_logger("coordinator.x").info("ours")
        logging.getLogger("library").warning("of a library")
    finally:
        logs.name_spans(None)
    structlog.get_logger("coordinator.x").info("later")
    places = [(line["event"], line.get("trace_id"), line.get("span_id")) for line in lines(out)]
    assert places == [
        ("elsewhere", None, None),
        ("ours", "a" * 32, "b" * 16),
        ("of a library", "a" * 32, "b" * 16),
        ("later", None, None),
    ]


def test_threads_of_libraries_log_the_context_too() -> None:
    out = io.StringIO()
    logs.configure("info", "json", stream=out, context={"slot": "w-1"})
    thread = threading.Thread(target=lambda: logging.getLogger("library").warning("from a thread"))
    thread.start()
    thread.join()
    assert lines(out)[0]["slot"] == "w-1"


def test_lines_of_libraries_are_formatted_the_same_way() -> None:
    out = io.StringIO()
    logs.configure("info", "json", stream=out, context={"slot": "w-0"})
    logging.getLogger("rq.worker").warning("job %s failed", "j-1", extra={"arguments": ["private"]})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old API", stacklevel=1)
    first, second = lines(out)
    assert (first["event"], first["slot"], first["level"]) == ("job j-1 failed", "w-0", "warning")
    assert "arguments" not in first
    assert "old API" in second["event"]


def test_clients_cannot_flood_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("coordinator.metrics.throttled.time.monotonic", lambda: now)
    monkeypatch.setattr(logs, "warn", ThrottledWarnings())
    out = io.StringIO()
    logs.configure("info", "json", stream=out)
    structlog.configure(cache_logger_on_first_use=False)  # the logger of throttled warnings is that of other tests too
    server = logging.getLogger("uvicorn.error")

    def asked_wrongly(times: int) -> None:
        for number in range(times):
            server.warning("Invalid HTTP request %d", number)

    asked_wrongly(100)
    now += 60.0
    asked_wrongly(1)
    for _ in range(2):
        server.error("broken")
    logged_lines = [(line["event"], line.get("more_of_it")) for line in lines(out)]
    assert logged_lines == [
        ("Invalid HTTP request 0", 0),
        ("Invalid HTTP request 0", 99),
        ("broken", None),
        ("broken", None),
    ]


SECRETS: dict[str, dict[str, Any]] = {
    "by key": {"actor": {"proof": "SECRET-1"}},
    "by part of a key": {"redis_password": "SECRET-1", "Authorization": "SECRET-1"},
    "in a list": {"calls": [{"token": "SECRET-1"}]},
    "in a URL": {"url": "redis://user:SECRET-1@host:6379/0"},
    "in a URL without user": {"url": "unix://:SECRET-1@/tmp/x.sock"},
    "in a query": {"url": "https://host/x?a=1&token=SECRET-1&b=2"},
    "in a query for Sentinels": {"url": "redis+sentinel://host/fleet?sentinel_password=SECRET-1"},
    "in a header": {"header": "Bearer SECRET-1"},
    "in an object's text": {"error": ValueError("cannot reach redis://:SECRET-1@host")},
}


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("case", SECRETS)
def test_secrets_are_hidden(form: Any, case: str) -> None:
    out = io.StringIO()
    logs.configure("info", form, stream=out)
    structlog.get_logger("x").info("told", **SECRETS[case], harmless="shown")
    assert "SECRET-1" not in out.getvalue()
    assert logs.HIDDEN in out.getvalue()
    assert "shown" in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_in_tracebacks_and_local_variables_are_hidden(form: Any) -> None:
    out = io.StringIO()
    logs.configure("info", form, stream=out)
    url = "redis://:SECRET-1@host"
    try:
        raise ConnectionError(f"no answer from {url}")
    except ConnectionError:
        structlog.get_logger("x").exception("lost the store")
        logging.getLogger("y").exception("lost it too")
    text = out.getvalue()
    assert text.count("ConnectionError") >= 2
    assert "SECRET-1" not in text


@pytest.mark.parametrize("text", ["x" * 5_000_000, "x://" * 1_000_000, "bearer" * 1_000_000, "a.b+" * 1_000_000])
def test_a_long_text_is_cut_quickly(text: str) -> None:
    out = io.StringIO()
    logs.configure("info", "json", stream=out)
    began = time.process_time()
    structlog.get_logger("x").info(text, url="redis://user:SECRET-1@host " + text)
    assert time.process_time() - began < 30.0
    assert len(out.getvalue()) < 100_000
    assert "SECRET-1" not in out.getvalue()


def test_logged_text_cannot_steer_a_terminal_or_forge_a_line() -> None:
    out = io.StringIO()
    logs.configure("info", "console", stream=out)
    evil = "\x1b[2J\x9b31m\u202e\r\nforged"
    structlog.get_logger("x").info(f"event{evil}", word=evil, several=f"some words{evil}", inner=[{"a": evil}])
    logging.getLogger("y").warning("library %s", evil)
    logged_lines = out.getvalue().splitlines()
    assert len(logged_lines) == 2
    try:
        raise ValueError(evil)
    except ValueError:
        structlog.get_logger("x").exception("failed")
    logged_lines = out.getvalue().split("\n")
    assert all(line.isprintable() for line in logged_lines)
    assert "Traceback (most recent call last):" in logged_lines


def test_the_form_follows_the_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    logs.configure("info", "auto", stream=out)
    structlog.get_logger("x").info("hello")
    assert "hello" in out.getvalue()
    assert not out.getvalue().startswith("{")
    out = Terminal()
    piped = io.StringIO()
    logs.configure("info", "auto", stream=piped)
    structlog.get_logger("x").info("hello")
    assert lines(piped)[0]["event"] == "hello"


@pytest.mark.parametrize("library", ["mcp.client.stdio", "mcp.client.streamable_http"])
def test_stray_output_of_downstream_servers_is_never_logged(library: str) -> None:
    """It is not checked for secrets."""
    out = io.StringIO()
    logs.configure("info", "json", stream=out)
    try:
        raise ValueError("invalid JSON: 'my key is s3cret'")
    except ValueError:
        logging.getLogger(library).exception("Failed to parse JSONRPC message from server")
    (line,) = lines(out)
    assert line["event"] == "Failed to parse JSONRPC message from server"
    assert "exception" not in line
    assert "s3cret" not in out.getvalue()
