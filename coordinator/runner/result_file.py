"""The file in which a command may leave its result: JSON with what the runner is to do, or plain text."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

OUTCOMES = ("done", "later", "failed", "hopeless")
Outcome = Literal["done", "later", "failed", "hopeless"]
MOST_RESULT_BYTES = 262_144
_MOST_BYTES = 4 << 20
_NOTE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OF_RUNS = re.compile(r"run-\d", re.IGNORECASE)
_FIELDS = ("outcome", "result", "summary", "notes", "usage", "retryAfterSeconds")


class GivenUsage(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """What a command says that it has used. ``cachedTokens`` and ``costMicroUsd`` are as in the tools."""

    input_tokens: Annotated[int, Meta(ge=0)] | None = None
    cached_input_tokens: Annotated[int, Meta(ge=0)] | None = None
    cached_tokens: Annotated[int, Meta(ge=0)] | None = None
    output_tokens: Annotated[int, Meta(ge=0)] | None = None
    cost_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    cost_micro_usd: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    turns: Annotated[int, Meta(ge=0)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None

    def given(self) -> dict[str, Any]:
        """What it says, by the names of ``protocols.Usage``."""
        stated = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        if (cached := stated.pop("cached_tokens", None)) is not None:
            stated.setdefault("cached_input_tokens", cached)
        if (cost := stated.pop("cost_micro_usd", None)) is not None:
            stated.setdefault("cost_usd", cost / 1_000_000)
        return stated


_USAGE = GivenUsage.__struct_encode_fields__


class ResultFile(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    outcome: Outcome | None = None
    result: Any = None
    """Text or JSON for the item; None: none."""
    summary: Annotated[str, Meta(max_length=2000)] = ""
    notes: dict[str, str] = {}
    usage: GivenUsage | None = None
    retry_after_seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None


class BadResult(ValueError):
    """The file cannot be used; the message says why, for a person."""


def read_result(path: Path) -> ResultFile | None:
    """Reads the file; None: there is none, or it is empty.

    JSON counts as such if it is an object with at least one of our fields; anything else is the result as text.

    Raises:
        BadResult: it is no file, too large, or an object of ours with wrong fields.
    """
    text = _read(path)
    if not text.strip():
        return None
    if text.lstrip().startswith(b"{"):
        try:
            raw = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raw = None
        if isinstance(raw, dict) and raw.keys() & set(_FIELDS):
            return _checked(raw)
    result = text.decode(errors="replace").replace("\0", "").strip()
    if len(result.encode()) > MOST_RESULT_BYTES:
        raise BadResult(f"the result file has {len(text)} bytes of text; at most {MOST_RESULT_BYTES} are allowed")
    return ResultFile(result=result)


def _checked(raw: dict[str, Any]) -> ResultFile:
    try:
        result = msgspec.convert(raw, ResultFile, strict=True)
    except msgspec.ValidationError as error:
        within, known = ("those of usage", _USAGE) if "$.usage" in str(error) else ("its fields", _FIELDS)
        raise BadResult(f"the result file is wrong: {error}; {within} are {', '.join(known)}") from None
    if wrong := next((key for key in result.notes if not _NOTE_KEY.fullmatch(key)), None):
        raise BadResult(f"notes: {wrong[:100]!r} is no key: letters, digits and . _ - are allowed, at most 100")
    if wrong := next((key for key in result.notes if _OF_RUNS.match(key)), None):
        raise BadResult(f"notes: {wrong!r} is kept for what the runner says of its attempts: choose another key")
    if len(result.notes) > 50:
        raise BadResult(f"notes: {len(result.notes)} are too many: at most 50 are allowed")
    size = len(msgspec.json.encode(result.result))
    if size > MOST_RESULT_BYTES:
        raise BadResult(f"result: {size} bytes as JSON are too many: at most {MOST_RESULT_BYTES} are allowed")
    return result


def _read(path: Path) -> bytes:
    try:
        # The command may have put anything there: a link elsewhere, or a pipe that nobody writes.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise BadResult(f"the result file cannot be read: {why}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadResult("the result file is no regular file")
        if status.st_size > _MOST_BYTES:
            raise BadResult(f"the result file has {status.st_size} bytes; at most {_MOST_BYTES} are allowed")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MOST_BYTES)
    finally:
        os.close(descriptor)
