"""What comes of an attempt, by how its command ended and what it said."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from coordinator.runner.outcomes import Kind, Outcome, Stop, judge
from coordinator.runner.presets import PRESETS
from coordinator.runner.protocols import Reading, Trouble
from coordinator.runner.result_file import BadResult, ResultFile, read_result
from coordinator.runner.supervision.processes import Ended


def _judge(code: int = 0, stop: Stop = "", result: ResultFile | None = None, **more: Any) -> Outcome:
    options = {name: more.pop(name) for name in ("exit_codes", "speaks", "allow_denials", "last_words") if name in more}
    ended = more.pop("ended", Ended(code=code))
    return judge(ended, stop, Reading(**more), result, **options)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(0, "done"), (1, "failed"), (2, "failed"), (65, "hopeless"), (75, "later"), (126, "broken"), (127, "broken")],
)
def test_exit_codes_of_any_command(code: int, kind: Kind) -> None:
    assert _judge(code).kind == kind


@pytest.mark.parametrize(
    ("preset", "code", "kind"),
    [
        ("codex", 2, "broken"),
        ("gemini", 41, "broken"),
        ("gemini", 53, "failed"),
        ("gemini", 145, "broken"),
        ("gemini", 173, "later"),
        ("claude", 1, "failed"),
        ("claude", 65, "hopeless"),
    ],
)
def test_exit_codes_of_presets(preset: str, code: int, kind: Kind) -> None:
    assert _judge(code, exit_codes=PRESETS[preset].exit_codes).kind == kind


@pytest.mark.parametrize(
    ("stop", "kind"),
    [("lost", "lost"), ("drain", "later"), ("timeout", "failed"), ("stall", "failed")],
)
def test_what_we_ended_is_no_success_whatever_its_exit_code(stop: Stop, kind: Kind) -> None:
    assert _judge(0, stop, success=True).kind == kind


def test_a_command_that_stayed_after_its_success_is_done() -> None:
    assert _judge(143, "finished", success=True, speaks=True).kind == "done"
    assert _judge(143, "finished", success=False, speaks=True).kind == "failed"


def test_a_zero_without_the_final_event_is_an_interruption() -> None:
    assert _judge(0, speaks=True).kind == "failed"
    assert _judge(0, speaks=True, success=True).kind == "done"


def test_denials_are_failures_unless_allowed() -> None:
    found = _judge(0, speaks=True, success=True, denials=("Bash: make",))
    assert found.kind == "failed"
    assert "Bash: make" in found.reason
    assert _judge(0, success=True, denials=("Bash",), allow_denials=True).kind == "done"


@pytest.mark.parametrize(
    ("trouble", "kind", "provider"),
    [
        ("rate_limit", "later", True),
        ("provider", "later", True),
        ("auth", "broken", True),
        ("usage", "broken", False),
        ("limit", "failed", False),
        ("error", "failed", False),
    ],
)
def test_what_the_agent_says_of_its_failure_counts_more_than_its_exit_code(
    trouble: Trouble, kind: Kind, provider: bool
) -> None:
    found = _judge(1, success=False, trouble=trouble, error="bad\nnews", retry_after_seconds=7.0)
    assert (found.kind, found.pauses) == (kind, provider)
    assert "bad news" in found.reason
    assert found.retry_after_seconds == (7.0 if kind == "later" else None)


def test_a_trouble_that_it_got_over_is_none() -> None:
    assert _judge(0, success=True, trouble="rate_limit").kind == "done"


@pytest.mark.parametrize(("number", "code"), [(errno.ENOENT, "127"), (errno.EACCES, "126"), (errno.ENOEXEC, "126")])
def test_a_command_that_cannot_be_started_breaks_the_runner(number: int, code: str) -> None:
    found = _judge(ended=Ended(127, failed="nope: no", errno=number))
    assert found.kind == "broken"
    assert code in found.reason


@pytest.mark.parametrize("code", [-9, 137])
def test_a_kill_that_was_not_ours_counts(code: int) -> None:
    found = _judge(code)
    assert found.kind == "failed"
    assert "SIGKILL" in found.reason
    assert "memory" in found.reason


def test_a_killed_supervisor_does_not_count() -> None:
    assert _judge(ended=Ended(unsupervised=True)).kind == "later"


@pytest.mark.parametrize("said", ["done", "later", "failed", "hopeless"])
@pytest.mark.parametrize("code", [0, 75, 1, 65])
def test_a_result_lowers_an_outcome_and_never_raises_it(code: int, said: Any) -> None:
    order = ["done", "later", "failed", "hopeless"]
    by_code = _judge(code).kind
    found = _judge(code, result=ResultFile(outcome=said, summary="why", retry_after_seconds=3.0))
    assert found.kind == max(by_code, said, key=order.index)
    if found.kind == "later":
        assert (found.retry_after_seconds, found.pauses) == (3.0, True)


def test_a_result_does_not_mend_a_broken_runner() -> None:
    assert _judge(127, result=ResultFile(outcome="hopeless")).kind == "broken"


def test_the_last_words_explain_an_exit_code() -> None:
    assert _judge(3, last_words="no such\tfile\x1b[0m").reason == "exit code 3: no such file [0m"


# --- the result file


def _written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_no_file_and_an_empty_one_are_no_result(tmp_path: Path) -> None:
    assert read_result(tmp_path / "none") is None
    assert read_result(_written(tmp_path / "r", " \n")) is None


@pytest.mark.parametrize("text", ["all good\n", '{"a": 1}', "{broken", "[1]", b"caf\xe9 {"])
def test_what_is_no_object_of_ours_is_text(tmp_path: Path, text: str | bytes) -> None:
    found = read_result(_written(tmp_path / "r", text))
    shown = text if isinstance(text, str) else text.decode(errors="replace")
    assert found == ResultFile(result=shown.strip())


def test_json_with_all_fields(tmp_path: Path) -> None:
    text = """{"outcome": "later", "result": {"a": [1]}, "summary": "s", "notes": {"plan.md": "text"},
        "usage": {"inputTokens": 5, "costUsd": 0.25}, "retryAfterSeconds": 60}"""
    found = read_result(_written(tmp_path / "r", text))
    assert found is not None
    assert (found.outcome, found.result, found.notes) == ("later", {"a": [1]}, {"plan.md": "text"})
    assert found.usage is not None
    assert found.usage.cost_usd == 0.25


def test_usage_may_be_named_as_the_tools_name_it(tmp_path: Path) -> None:
    found = read_result(_written(tmp_path / "r", '{"usage": {"cachedTokens": 7, "costMicroUsd": 250000}}'))
    assert found is not None
    assert found.usage is not None
    assert found.usage.given() == {"cached_input_tokens": 7, "cost_usd": 0.25}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"outcome": "great"}', "outcome"),
        ('{"outcome": "done", "sumary": "x"}', "sumary"),
        ('{"result": 1, "notes": {"../x": "y"}}', "notes"),
        ('{"result": 1, "notes": {"run-1": "y"}}', "notes: 'run-1' is kept for what the runner says"),
        ('{"retryAfterSeconds": -1}', "retryAfterSeconds"),
        ('{"usage": {"costUsd": 1e300}}', "costUsd"),
        ('{"usage": {"tokens": 5}}', "tokens.*those of usage are inputTokens, "),
        ('{"result": "' + "x" * 262_144 + '"}', "result"),
        ("x" * 262_145, "262145"),
    ],
)
def test_a_wrong_file_names_the_field(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(BadResult, match=named):
        read_result(_written(tmp_path / "r", text))


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name, why in (("pipe", "regular"), ("link", "link"), (".", "regular")):
        with pytest.raises(BadResult, match=why):
            read_result(tmp_path / name)
