"""YAML of other people: how deeply it may be nested."""

from __future__ import annotations

import pytest

from coordinator.interchange.yamltext import safe_yaml

_DEEPEST = "[" * 50 + "]" * 50


def test_fifty_brackets_in_each_other_are_read() -> None:
    assert str(safe_yaml(_DEEPEST)) == _DEEPEST


@pytest.mark.parametrize("text", [f"[{_DEEPEST}]", "{a: " * 5_000, "a: [\n" * 51])
def test_more_are_refused_before_they_are_parsed(text: str) -> None:
    with pytest.raises(ValueError, match="more than 50 brackets in each other"):
        safe_yaml(text)
