"""Readers of agents' output, over streams that the real command lines have written to a stand-in of their models."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.runner.protocols import Reader, Reading
from coordinator.runner.readers import ClaudeReader, CodexReader, GeminiReader, OpencodeReader, PlainReader
from coordinator.runner.readers.troubles import trouble_of, wait_of

STREAMS = Path(__file__).parent / "streams"
READERS: dict[str, type[Any]] = {
    "claude": ClaudeReader,
    "codex": CodexReader,
    "gemini": GeminiReader,
    "opencode": OpencodeReader,
}


def read(reader: Reader, stdout: str | bytes = b"", stderr: str = "") -> Reading:
    for said in stderr.splitlines():
        reader.line("stderr", said.encode())
    for line in (stdout if isinstance(stdout, bytes) else stdout.encode()).split(b"\n"):
        reader.line("stdout", line)
    return reader.reading()


def recorded(name: str) -> Reading:
    """What the reader makes of ``<command line>-<version>-<case>.jsonl``."""
    return read(READERS[name.partition("-")[0]](), (STREAMS / f"{name}.jsonl").read_bytes())


def test_every_stream_is_read() -> None:
    for stream in STREAMS.glob("*.jsonl"):
        reading = recorded(stream.stem)
        assert reading.session, stream
        assert reading.events, stream


@pytest.mark.parametrize(
    ("name", "tokens", "cost"),
    [
        ("claude-2.1.197-done", (210, 10, 40), 0.002005),
        ("codex-0.171.0-done", (300, 15, 60), None),
        ("gemini-0.61.0-done", (200, 10, 40), None),
        ("opencode-1.18.33-done", (210, 10, 40), 0.0004),
    ],
)
def test_a_finished_run(name: str, tokens: tuple[int, int, int], cost: float | None) -> None:
    reading = recorded(name)
    assert (reading.finished, reading.success, reading.trouble, reading.error) == (True, True, None, "")
    assert reading.text == "all done"
    assert not reading.denials
    usage = reading.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == tokens
    assert usage.cost_usd == (pytest.approx(cost) if cost else None)


@pytest.mark.parametrize(
    ("name", "trouble", "error"),
    [
        ("claude-2.1.197-unauthorized", "auth", "Failed to authenticate"),
        ("claude-2.1.197-rate-limit", "rate_limit", "429"),
        ("claude-2.1.197-overloaded", "provider", "529"),
        ("claude-2.1.197-max-turns", "limit", "Reached maximum number of turns"),
        ("claude-2.1.197-max-budget", "limit", "Reached maximum budget"),
        ("claude-2.1.197-interrupted-in-tool", "interrupted", ""),
        ("codex-0.171.0-401", "auth", "unexpected status 401"),
        ("codex-0.171.0-429", "rate_limit", "429 Too Many Requests"),
        ("codex-0.171.0-500", "provider", "high demand"),
        ("gemini-0.61.0-400", "error", "made up"),
        ("opencode-1.18.33-401", "auth", "made up: 401"),
    ],
)
def test_a_failed_run(name: str, trouble: str, error: str) -> None:
    reading = recorded(name)
    assert (reading.finished, reading.success, reading.trouble) == (True, False, trouble)
    assert error in reading.error
    assert "\n" not in reading.error


@pytest.mark.parametrize(
    ("name", "denied"),
    [
        ("claude-2.1.197-denied", "Bash curl http://127.0.0.1:1/"),
        ("gemini-0.61.0-noshell", 'Tool "run_shell_command" not found'),
        ("opencode-1.18.33-denied", "bash: The user rejected permission"),
    ],
)
def test_what_was_denied(name: str, denied: str) -> None:
    (found,) = recorded(name).denials
    assert found.startswith(denied)


def test_an_interrupted_call_of_the_model_has_no_word_of_success() -> None:
    reading = recorded("claude-2.1.197-interrupted-in-call")
    assert (reading.finished, reading.success) == (False, None)


def test_a_killed_run_has_the_usage_so_far_once_per_message() -> None:
    whole = (STREAMS / "claude-2.1.197-done.jsonl").read_text().splitlines()
    parts = [line for line in whole if '"type":"result"' not in line]
    usage = read(ClaudeReader(), "\n".join([*parts, *parts])).usage  # each message in two parts that repeat its usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.turns, usage.cost_usd) == (210, 10, 2, None)


COUNTED = {"inputTokens": 7, "outputTokens": 2, "cacheReadInputTokens": 1, "cacheCreationInputTokens": 3}
OF_SESSION = {"input_tokens": 20, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 9}
OF_MESSAGE = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}


@pytest.mark.parametrize(
    ("told", "tokens"),
    [
        ({"modelUsage": {"m": COUNTED, "n": {"outputTokens": 1}}, "usage": OF_SESSION}, (11, 1, 3)),
        ({"modelUsage": {"m": {"costUSD": 0.1}}, "usage": OF_SESSION}, (30, 6, 9)),
        ({"modelUsage": {"m": COUNTED, "n": {"costUSD": 0.1}}, "usage": OF_SESSION}, (30, 6, 9)),
        ({"modelUsage": {}, "usage": OF_SESSION}, (30, 6, 9)),
        ({"usage": OF_SESSION}, (30, 6, 9)),
        ({"modelUsage": {"m": {}}, "usage": dict.fromkeys(OF_SESSION, 0)}, (7, 2, 1)),
        ({"modelUsage": None, "usage": None}, (7, 2, 1)),
    ],
)
def test_tokens_of_claude_are_those_of_its_models_else_of_the_session_else_of_its_messages(
    told: dict[str, Any], tokens: tuple[int, int, int]
) -> None:
    message = {"type": "assistant", "message": {"id": "a", "usage": OF_MESSAGE, "content": []}}
    usage = read(ClaudeReader(), json.dumps([message, {"type": "result", "subtype": "success", **told}])).usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == tokens


def test_a_cost_is_told_even_of_a_run_that_failed() -> None:
    assert recorded("claude-2.1.197-interrupted-in-tool").usage.cost_usd == pytest.approx(0.0010025)
    assert recorded("claude-2.1.197-max-turns").usage.cost_usd == pytest.approx(0.0010025)


def test_reconnecting_is_no_failure() -> None:
    lines = (STREAMS / "codex-0.171.0-500.jsonl").read_text().splitlines()
    usage = {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 2}
    reading = read(CodexReader(), "\n".join([*lines[:4], json.dumps({"type": "turn.completed", "usage": usage})]))
    assert (reading.finished, reading.success, reading.trouble, reading.error) == (True, True, None, "")


def test_a_limit_that_says_when_it_ends() -> None:
    limit = {"status": "rejected", "resetsAt": 1e12}
    reading = read(ClaudeReader(), json.dumps({"type": "rate_limit_event", "rate_limit_info": limit}))
    assert (reading.retry_after_seconds or 0) > 1e9
    headers = {"retry-after": "30", "date": "Thu, 26 Nov 2026 15:20:16 GMT"}
    data = {"message": "slow down", "statusCode": 429, "responseHeaders": headers}
    reading = read(OpencodeReader(), json.dumps({"type": "error", "error": {"name": "APIError", "data": data}}))
    assert (reading.trouble, reading.retry_after_seconds) == ("rate_limit", 30)


def test_errors_of_gemini_before_its_first_event() -> None:
    error = json.dumps({"session_id": "1", "error": {"type": "Error", "message": "slow down", "code": 429}}, indent=2)
    reading = read(GeminiReader(), stderr=f"Loaded cached credentials.\n{error}\n")
    assert (reading.trouble, reading.error) == ("rate_limit", "slow down")
    reading = read(GeminiReader(), stderr="Invalid auth method selected.")
    assert reading.error == "Invalid auth method selected."


FORMS = {
    "an array on one line": lambda messages: json.dumps(messages),
    "an array on many lines": lambda messages: json.dumps(messages, indent=2),
    "an array with a message a line": lambda messages: "[\n" + ",\n".join(map(json.dumps, messages)) + "\n]",
    "the last message": lambda messages: json.dumps(messages[-1]),
    "the last message on many lines": lambda messages: json.dumps(messages[-1], indent=2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", ["", "warning: slow\n"])
def test_json_of_claude_in_any_form(form: str, noise: str) -> None:
    lines = (STREAMS / "claude-2.1.197-done.jsonl").read_text().splitlines()
    reading = read(ClaudeReader(), f"{noise}{FORMS[form]([json.loads(line) for line in lines])}\n{noise}")
    assert (reading.finished, reading.success, reading.text) == (True, True, "all done")
    assert reading.usage.cost_usd == pytest.approx(0.002005)
    failed = [{"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 529 overloaded"}]
    reading = read(ClaudeReader(), f"{noise}{FORMS[form](failed)}\n{noise}")
    assert (reading.success, reading.trouble) == (False, "provider")


def said_by_claude(text: str, message: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": message, "content": [{"type": "text", "text": text}]}, **more}


@pytest.mark.parametrize("result", [{"result": ""}, {"result": " \n"}, {"result": None}, {}])
def test_the_last_message_is_the_text_of_a_run_without_a_result(result: dict[str, Any]) -> None:
    tool = {"type": "assistant", "message": {"id": "b", "content": [{"type": "tool_use", "name": "Bash", "input": {}}]}}
    messages = [
        said_by_claude("I look.", "x"),
        said_by_claude("I did "),
        said_by_claude("the work."),
        tool,
        said_by_claude("found it", "s", parent_tool_use_id="t"),
        said_by_claude(" ", "c"),
        {"type": "assistant", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "none"}]}},
    ]
    ended = {"type": "result", "subtype": "success", "is_error": False, **result}
    reading = read(ClaudeReader(), json.dumps([*messages, ended]))
    assert (reading.success, reading.text) == (True, "I did the work.")
    reading = read(ClaudeReader(), json.dumps([*messages, {**ended, "is_error": True}]))
    assert (reading.success, reading.text.strip()) == (False, "")


def test_what_gemini_says_before_its_last_tool_is_its_text_if_nothing_follows() -> None:
    def message(content: str) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", "content": content, "delta": True}

    events = [message("I "), message("did it."), {"type": "tool_use", "tool_name": "t"}, message("\n")]
    ended = {"type": "result", "status": "success"}
    assert read(GeminiReader(), "\n".join(map(json.dumps, [*events, ended]))).text == "I did it."
    last = [message("all "), message("done"), ended]
    assert read(GeminiReader(), "\n".join(map(json.dumps, [*events, *last]))).text == "all done"


@pytest.mark.parametrize("noise", ["{", "[", "}", "[1, 2]", "[\nnoise\n]", "{\n  'a': 1"])
def test_brackets_that_begin_nothing_hide_no_event(noise: str) -> None:
    lines = (STREAMS / "claude-2.1.197-done.jsonl").read_text()
    reading = read(ClaudeReader(), f"{noise}\n{lines}")
    assert (reading.success, reading.text, reading.session is None) == (True, "all done", False)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_of_gemini(indent: int | None) -> None:
    tokens = {"prompt": 200, "candidates": 30, "thoughts": 10, "cached": 10}
    said = {"session_id": "1", "response": "all done", "stats": {"models": {"gemini-3": {"tokens": tokens}}}}
    reading = read(GeminiReader(), json.dumps(said, indent=indent))
    assert (reading.finished, reading.success, reading.text, reading.session) == (True, True, "all done", "1")
    assert (reading.usage.input_tokens, reading.usage.cached_input_tokens, reading.usage.output_tokens) == (200, 10, 40)
    error = {"session_id": "1", "error": {"type": "Error", "message": "slow down", "code": 429}}
    reading = read(GeminiReader(), json.dumps(error, indent=indent))
    assert (reading.success, reading.trouble, reading.error) == (False, "rate_limit", "slow down")


def test_a_command_line_that_fails_before_it_begins() -> None:
    said = "\x1b[31merror: unknown option '--frobnicate'\x1b[0m"
    for reader in READERS.values():
        reading = read(reader(), stderr=f"Warning: 256-color support not detected\n{said}\n")
        assert (reading.finished, reading.error) == (False, "error: unknown option '--frobnicate'")
        assert reading.trouble == "usage"
        reading = read(reader(), stderr=f"{said}\n\nUsage: agent [OPTIONS]\n\nFor more information, try '--help'.\n")
        assert reading.error == "error: unknown option '--frobnicate'"


def test_plain_output_is_the_answer() -> None:
    reading = read(PlainReader(), "one\ntwo\n", stderr="careful\n")
    assert (reading.text, reading.finished, reading.success, reading.error) == ("one\ntwo", False, None, "careful")
    reading = read(PlainReader(), "a" * 30_000 + "\n" + "end")
    assert len(reading.text) <= PlainReader.KEPT
    assert reading.text.endswith("end")


def test_a_line_of_10_mb_is_read_and_a_longer_one_that_was_cut_off_is_passed_over() -> None:
    done = (STREAMS / "claude-2.1.197-done.jsonl").read_text().splitlines()
    big = {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x" * 10_000_000}]}}
    cut = json.dumps(big)[:10_000_000]
    reader = ClaudeReader()
    tracemalloc.start()
    reading = read(reader, "\n".join([done[0], json.dumps(big), cut, *done[1:]]))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reading.success, reading.text) == (True, "all done")
    assert kept < 1_000_000


PIECES = st.sampled_from([line for stream in STREAMS.glob("*.jsonl") for line in stream.read_bytes().splitlines()])
WRONG = st.sampled_from([None, 7, -1.5, True, "x", [], {}, [None], {"a": None}])


def spoilt(line: bytes, choose: Any) -> bytes:
    """An event in which one value, at any depth, is another."""
    event = json.loads(line)
    place: Any = event
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return json.dumps(event).encode()
        key = choose(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or choose(st.booleans()):
            place[key] = choose(WRONG)
            return json.dumps(event).encode()
        place = place[key]


@settings(max_examples=80)
@given(st.sampled_from(sorted(READERS)), st.data())
def test_no_reader_raises_and_all_that_it_says_is_well_formed(name: str, data: Any) -> None:
    reader = READERS[name]()
    for _ in range(data.draw(st.integers(1, 8))):
        line = data.draw(PIECES)
        kind = data.draw(st.sampled_from(["whole", "cut", "spoilt", "noise"]))
        if kind == "cut":
            line = line[: data.draw(st.integers(0, len(line)))]
        elif kind == "spoilt":
            line = spoilt(line, data.draw)
        elif kind == "noise":
            line = data.draw(st.binary(max_size=50))
        reader.line(data.draw(st.sampled_from(["stdout", "stderr"])), line)
    reading = reader.reading()
    assert isinstance(reading.text, str)
    assert isinstance(reading.finished, bool)
    assert reading.success in (True, False, None)
    assert len(reading.error) <= 500
    assert len(reading.shown) <= 120
    assert all(isinstance(one, str) for one in reading.denials)
    assert reading.session is None or isinstance(reading.session, str)
    usage = reading.usage
    assert all(n is None or n >= 0 for n in (usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.turns))


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("You've hit your usage limit. Upgrade to Pro or try again at 3:14 PM.", "rate_limit"),
        ("Your credit balance is too low to access the API", "rate_limit"),
        ("Quota exceeded. Check your plan and billing details.", "rate_limit"),
        ("unexpected status 403 Forbidden: quota exceeded", "rate_limit"),
        ("Invalid API key · Please run /login", "auth"),
        ("Missing environment variable: `OPENAI_API_KEY`.", "auth"),
        ("unexpected status 503 Service Unavailable", "provider"),
        ("stream disconnected before completion: error sending request", "provider"),
        ("connect ECONNREFUSED 127.0.0.1:1", "provider"),
        ("unexpected status 404 Not Found", "usage"),
        ("5-hour limit reached \u2219 resets 3am", "rate_limit"),
        ("Session limit reached \u2219 resets 6pm", "rate_limit"),
        ("Weekly limit reached \u2219 resets Oct 9, 12pm", "rate_limit"),
        ("Opus weekly limit reached", "rate_limit"),
        ("Limit reached \u00b7 resets 5pm (UTC)", "rate_limit"),
        ("You have reached your session limit. It resets at 5pm.", "rate_limit"),
        ("Spending limit reached", "rate_limit"),
        ("Your daily limit was exceeded", "rate_limit"),
        ("Your limit will reset at 2026-11-26 15:00:00", "rate_limit"),
        ("Context limit reached", "error"),
        ("the output token limit was reached", "error"),
        ("Recursion limit exceeded", "error"),
        ("time limit reached", "error"),
        ("Memory limit exceeded", "error"),
        ("the limit of the line is 80", "error"),
        ("the tests fail on line 429 of the module", "error"),
        ("cannot find the file", "error"),
    ],
)
def test_troubles_by_their_words(message: str, trouble: str) -> None:
    assert trouble_of(message) == trouble


NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 1.5s.", 1.5),
        ("Rate limit reached. Try again in 3 days 4 hours 2 minutes.", 3 * 86_400 + 4 * 3600 + 120),
        ("Please try again in 20ms", 0.02),
        ("Your quota will reset after 19h47m14s.", 71_234),
        ("Resets in 2h39m52s.", 9_592),
        ("Please try again in 7m12s", 432),
        ("Please try again in 6m0.5s", 360.5),
        ("Try again in 1d2h.", 26 * 3600),
        ("Try again in 1h 5 minutes and 3 secs", 3600 + 303),
        ("resets in 1 week", 7 * 86_400),
        ("x-ratelimit-reset-requests: 1m30s", 90),
        ('{"retryDelay": "34.5s"}', 34.5),
        ("retry-after: 30s", 30),
        ("try again in 3 months", None),
        ("retry-after: 30", 30),
        ("Claude AI usage limit reached|" + str(int(NOON) + 600), 600),
        ("You've hit your limit · resets 3pm (UTC)", 3 * 3600),
        ("You've hit your limit · resets 3:30pm (Europe/Berlin)", 2.5 * 3600),
        ("You've hit your limit · resets 11am (UTC)", 23 * 3600),
        ("You've hit your limit · resets Nov 28 at 1pm (UTC)", 49 * 3600),
        ("Weekly limit reached \u2219 resets November 28, 1pm (UTC)", 49 * 3600),
        ("Weekly limit reached \u2219 resets Nov 26, 11am (UTC)", None),
        ("resets at 2026-11-26T13:00:00Z", 3600),
        ("Your limit will reset at 2026-11-26 15:00:00 +0200", 3600),
        ("resets at 2026-13-26 15:00 UTC", None),
        ("resets 3pm (No/Where)", None),
        ("resets Feb 31 at 1pm (UTC)", None),
        ("try again in 99 days", None),
        ("try again later", None),
    ],
)
def test_the_wait_that_an_error_asks_for(message: str, seconds: float | None) -> None:
    assert wait_of(message, NOON) == (pytest.approx(seconds) if seconds is not None else None)


@pytest.mark.parametrize(
    ("now", "message", "days"),
    [
        ("2026-12-30T12:00", "resets Jan 3, 12pm (UTC)", 4),
        ("2026-12-31T23:00", "resets Jan 1 at 11pm (UTC)", 1),
        ("2027-01-01T00:00", "resets Jan 2, 12am (UTC)", 1),
        ("2027-12-30T00:00", "resets Jan 3, 2027, 12pm (UTC)", None),
        ("2027-01-01T00:00", "resets Dec 31, 11pm (UTC)", None),
        ("2028-02-27T00:00", "resets Feb 29, 12am (UTC)", 2),
        ("2027-02-27T00:00", "resets Feb 29, 12am (UTC)", None),
    ],
)
def test_a_date_without_a_year_is_the_next_one(now: str, message: str, days: int | None) -> None:
    seconds = wait_of(message, datetime.fromisoformat(f"{now}+00:00").timestamp())
    assert seconds == (None if days is None else days * 86_400)


@pytest.mark.parametrize("reader", READERS)
def test_a_limit_that_is_told_in_plain_words_before_the_first_event(reader: str) -> None:
    reading = read(READERS[reader](), "Session limit reached. Try again in 2h30m.\n")
    assert (reading.trouble, reading.retry_after_seconds) == ("rate_limit", 9_000)
