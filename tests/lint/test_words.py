"""Small words of pages: articles, and numbers of what can be counted."""

from __future__ import annotations

import re

import pytest

from coordinator.toolsets.registry import described_toolsets
from deploy.grafana.boards import ALL
from tests.support import pages

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ARTICLE = re.compile(r"(?<![\w.'/-])([Aa]n?)[ \n]+[`*\"(\[]*([A-Za-z][\w-]*)")
_LIKE_YOU = re.compile(r"(?:uni(?!n|m)|us[aeiu]|ut[fi]|u(?:rl|uid|ri)|eu|one|once|u-)", re.IGNORECASE)
_SPELT = re.compile(r"[AEFHILMNORSX](?:[A-Z]+|\b)")
"""Letters whose names begin with a vowel."""
_READ = ("SHA", "RESP", "README", "REST", "LIMIT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGINT", "SIGSTOP", "FCALL", "HOME")
"""Abbreviations that are read as words."""
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNTED = {"dashboards": len(ALL), "toolsets": len(described_toolsets())}


def article(word: str) -> str:
    """The one that goes before a word; empty: either."""
    if word.isupper() and len(word) > 1 and word not in _READ:
        return "an" if _SPELT.match(word) else "a"
    if word.lower().startswith(("hour", "honest", "heir")):
        return "an"
    return "an" if word[0].lower() in "aeiou" and not _LIKE_YOU.match(word) else "a"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("tree", "a"), ("agent", "an"), ("URL", "a"), ("user", "a"), ("HTTP", "an"), ("MCP", "an"), ("hour", "an"),
     ("one", "a"), ("unset", "an"), ("RQ", "an"), ("README", "a"), ("SHA", "a"), ("Unix", "a"), ("item", "an")],
)  # fmt: skip
def test_articles_follow_sounds(word: str, expected: str) -> None:
    assert article(word) == expected


@pytest.mark.parametrize("page", [str(path.relative_to(pages.ROOT)) for path in pages.paths()])
def test_pages_have_the_right_articles_and_counts(page: str) -> None:
    text = _FENCE.sub("", (pages.ROOT / page).read_text())
    wrong = [
        f"{found[1]} {found[2]}"
        for found in _ARTICLE.finditer(text)
        if not found[2].isdigit() and found[1].lower() != article(found[2])
    ]
    assert wrong == []
    for noun, right in COUNTED.items():
        for found in re.finditer(rf"\b({'|'.join(NUMBERS)})[ \n]+{noun}\b", text, re.IGNORECASE):
            assert NUMBERS.index(found[1].lower()) == right, found[0]
