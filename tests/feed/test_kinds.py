"""The kinds of events: what operations append, what the catalogue says, and what the page shows are the same."""

from __future__ import annotations

import re
from pathlib import Path

from coordinator.feed.kinds import HIDDEN, KINDS, ROLES
from coordinator.feed.page import PAGE, page
from tests.lint.lua_lint import ROOT

_CALL = re.compile(r"(?:emit(?:_of|_by)?\(run|emit_to\(run, \w+), (?P<kind>.+?), ")
_WORD = re.compile(r"(?:^|\band |\bor )'(\w+)'")


def appended() -> set[str]:
    """Every kind that an operation may append."""
    found: set[str] = set()
    for path in sorted((ROOT / "coordinator").rglob("*.lua")):
        text = path.read_text(encoding="utf-8")
        for call in _CALL.finditer(text):
            expression = call["kind"]
            if re.fullmatch(r"\w+", expression):
                named = re.search(rf"local {expression} = (.+)", text)
                if named is None:  # a parameter of a function that passes it on
                    assert re.search(rf"function [\w.]+\([^)]*\b{expression}\b", text), f"{path}: {call[0]}"
                    continue
                expression = named[1]
            words = _WORD.findall(expression)
            assert words, f"{path}: {call[0]}"
            found.update(words)
    return found


def test_every_kind_that_is_appended_is_in_the_catalogue() -> None:
    assert appended() == set(KINDS) | HIDDEN


def test_the_page_lists_all_kinds() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run `python -m coordinator.feed.page` and look at the difference"


def test_roles_have_the_numbers_of_the_items() -> None:
    classes = Path(ROOT / "coordinator/toolsets/items/lua/layout/classes.lua").read_text(encoding="utf-8")
    names = re.search(r"local ((?:[A-Z]+, )+[A-Z]+) = ((?:\d, )+\d)\n", classes)
    assert names is not None
    numbers = dict(zip(names[1].lower().split(", "), names[2].split(", "), strict=True))
    assert {role: str(number) for number, role in enumerate(ROLES)} == numbers


def test_a_name_has_the_same_members_whatever_entry_it_comes_from() -> None:
    for kind in KINDS.values():
        same = [other for other in KINDS.values() if other.name == kind.name]
        assert len({(one.toolset, one.doc, tuple(one.fields), tuple(one.said), one.asked) for one in same}) == 1
