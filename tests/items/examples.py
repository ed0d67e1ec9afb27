"""Comparison of an answer with an example of the contract, field by field.

An example is JSON as the contract shows it. Ids ("uuid", "uuid-a" ...), times and "..." stand for
any value of their kind; everything else is meant to the letter. Lists match element by
element. Fields that an answer has beyond the example must be named.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def differences(example: Any, answer: Any, more: Collection[str] = (), at: str = "$") -> list[str]:
    """The differences of an answer from the example; ``more`` are paths of fields it may add."""
    if isinstance(example, dict):
        return _objects(example, answer, more, at)
    if isinstance(example, list):
        if not isinstance(answer, list) or len(answer) != len(example):
            return [f"{at}: {len(example)} elements in the example, the answer is {answer!r}"]
        return [
            found
            for number, (one, other) in enumerate(zip(example, answer, strict=True))
            for found in differences(one, other, more, f"{at}[{number}]")
        ]
    return [] if _same(example, answer) else [f"{at}: {example!r} in the example, {answer!r} in the answer"]


def _objects(example: dict[str, Any], answer: Any, more: Collection[str], at: str) -> list[str]:
    if not isinstance(answer, dict):
        return [f"{at}: an object in the example, the answer is {answer!r}"]
    found = [f"{at}.{name}: missing" for name in example if name not in answer]
    path = re.sub(r"\[\d+\]", "[]", at)
    found += [
        f"{at}.{name}: not in the example" for name in answer if name not in example and f"{path}.{name}" not in more
    ]
    for name in example.keys() & answer.keys():
        found += differences(example[name], answer[name], more, f"{at}.{name}")
    return found


def _same(example: Any, answer: Any) -> bool:
    if isinstance(example, str) and isinstance(answer, str):
        if example == "uuid" or example.startswith("uuid-") or _UUID.fullmatch(example):
            return _UUID.fullmatch(answer) is not None
        if example == "...":
            return True
        if _TIME.fullmatch(example):
            return _TIME.fullmatch(answer) is not None
    return type(example) is type(answer) and bool(example == answer)
