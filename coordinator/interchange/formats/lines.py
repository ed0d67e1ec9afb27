"""Lines of JSON, as untrusted as any file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coordinator.interchange.model import ImportProblem

MOST_BYTES = 16 * 1024 * 1024
"""The longest line."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def json_lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with one per line, each with its line from 1.

    Raises:
        ImportProblem: a line is too long, or no JSON object.
    """
    begin, number = 0, 0
    data = data.removeprefix(b"\xef\xbb\xbf")
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
            raise ImportProblem(f"line {number} is not a JSON object: {error}{cut}") from None


def json_value(data: bytes) -> Any:
    """A file that is one JSON value.

    Raises:
        ImportProblem: it is not.
    """
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ImportProblem(f"the file is not JSON: {error}; is it cut off?") from None
