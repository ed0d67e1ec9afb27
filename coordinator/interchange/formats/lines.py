"""Lines of JSON, as untrusted as any file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from coordinator.interchange.files import text_of_bytes
from coordinator.interchange.model import ImportProblem

MOST_BYTES = 16 * 1024 * 1024
"""The longest line."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_next = json.JSONDecoder().raw_decode


def json_lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with one per line, each with its line from 1."""
    begin, number = 0, 0
    data = text_of_bytes(data).encode()
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        number += 1
        line, begin, whole = data[begin:end].strip(), end + 1, end < len(data)
        if not line:
            continue
        if len(line) > MOST_BYTES:
            raise ImportProblem(f"line {number} has more than {MOST_BYTES} bytes")
        try:
            yield number, _decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            cut = "" if whole else "; it is the last one: is the file cut off?"
            if line.startswith(b"<<<<<<< "):
                raise ImportProblem(f"line {number} begins a merge conflict: resolve it first") from None
            raise ImportProblem(f"line {number} is not a JSON object: {error}{cut}") from None


def json_value(data: bytes) -> Any:
    """A file that is one JSON value. Raises ImportProblem: it is not."""
    return _value(text_of_bytes(data))


def json_values(data: bytes) -> list[Any]:
    """The values of a file that has one or more, one after the other, as programs print pages of results."""
    text, begin, values = text_of_bytes(data).strip(), 0, list[Any]()
    while begin < len(text) or not values:
        try:
            end = _next(text, begin)[1]
        except (ValueError, RecursionError):
            end = len(text)  # whose decoder says what is wrong
        values.append(_value(text[begin:end]))
        while end < len(text) and text[end].isspace():
            end += 1
        begin = end
    return values


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        cut = "; is it cut off?" if "truncated" in str(error) else ""
        raise ImportProblem(f"the file is not JSON: {error}{cut}") from None
