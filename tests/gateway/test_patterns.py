"""Patterns of schemas mean what they mean in JavaScript, whose regular expressions ECMA-262 defines."""

from __future__ import annotations

import json
import random
import re
import subprocess

import pytest

from coordinator.toolsets.gateway.rules.schemas.patterns import MAX_DEPTH, MAX_LENGTH, PatternError, compiled
from tests.transport.nodejs import NODE


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\p{L}+$", "Ωé", "a1"),
        (r"^[\p{L}\p{N}_-]+$", "é1_-", "é!"),
        (r"^\P{Lu}$", "a", "A"),
        (r"^\p{Script=Greek}$", "ω", "a"),
        (r"^\p{Extended_Pictographic}$", "😀", "a"),
        (r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$", "👍🏽", "x"),
        (r"^(?<year>\d{4})-\k<year>$", "2026-2026", "2026-2027"),
        (r"(?<=a+)b", "aab", "b"),
        (r"(?<!a)b", "cb", "ab"),
        (r"^\u{1F600}$", "😀", "u"),
        (r"^\ud83d\ude00$", "😀", "a"),
        (r"^[\ud83d\ude00]$", "😀", "\u00d8"),
        (r"^.$", "😀", "\u2028"),
        (r"^a$", "a", "a\n"),
        (r"^[^]$", "\n", ""),
        (r"[]|b", "b", "a"),
        (r"^\/\-\_$", "/-_", "\\/"),
        (r"^\cJ$", "\n", "cJ"),
        (r"^[\w-.]+$", "a-.", "a,"),
        (r"^]{}$", "]{}", "]"),
        (r"^\d$", "1", "\u0661"),
        (r"^\s$", "\ufeff", "\x1c"),
        (r"^\S$", "\x85", "\u2003"),
        (r"\bé", "aé", "é"),
        (r"^(a)?\1b$", "b", "c"),
        (r"^(?:(a)|b)\1$", "b", "ba"),
        (r"^(?:a){2}?$", "aa", "a"),
        (r"^a{,2}$", "a{,2}", "aa"),
        (r"^[[a]$", "[", "]"),
        (r"^\0\x41\u0042$", "\0AB", "0AB"),
        (r"^(?i:ab)c$", "ABc", "ABC"),
        (r"^(?s:.)(?m:$)", "\n\na", "ab"),
        (r"(?i)^ab$", "AB", "ABC"),
        (r"^(?P<a>x)(?P=a)$", "xx", "x"),
        (r"\Aab\Z", "ab", "ab\n"),
    ],
)  # fmt: skip
def test_patterns_are_those_of_ecma_262(pattern: str, good: str, bad: str) -> None:
    assert compiled(pattern).search(good)
    assert not compiled(pattern).search(bad)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "a '(' is not closed"),
        (")", "there is a ')' without '('"),
        ("[a", "a '[' is not closed"),
        ("a**", "a repetition is repeated"),
        ("a++", "a repetition is repeated"),
        ("*a", "there is nothing to repeat"),
        ("^*", "there is nothing to repeat"),
        ("(?<=a)*", "there is nothing to repeat"),
        ("a{2,1}", "the numbers of a repetition are out of order"),
        ("[b-a]", "the ends of a range are out of order"),
        ("\\", "it ends with a backslash"),
        (r"(?<n>a)\k<m>", "there is no group 'm'"),
        (r"(?<1>a)", "'1' is no name of a group"),
        (r"(?>a)", "it has '(?>', which is no group"),
        (r"(?#a)", "it has '(?#', which is no group"),
        (r"(?ii:a)", "a group has a flag twice, or none"),
        (r"\p{Nothing}", "unknown property"),
        (r"\u{110000}", "there is no character 110000"),
        ("a" * (MAX_LENGTH + 1), f"it has {MAX_LENGTH + 1} characters; allowed: at most {MAX_LENGTH}"),
        ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), f"groups are nested more than {MAX_DEPTH} deep"),
    ],
)
def test_what_is_no_pattern_says_why(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=re.escape(why)):
        compiled(pattern)


def test_large_patterns_are_read() -> None:
    assert compiled("(" * MAX_DEPTH + ")" * MAX_DEPTH).search("")
    assert compiled("a{1,99999999999999999999}").search("a")
    assert compiled("a{00000000000000000002}").search("aa")


SCRIPT = """
for (const line of require("fs").readFileSync(0, "utf8").trim().split("\\n")) {
  const [pattern, texts] = JSON.parse(line)
  let made = null
  for (const flags of ["", "u"]) try { made = new RegExp(pattern, flags) } catch {}
  console.log(JSON.stringify(made && [made.flags, texts.map(text => made.test(text))]))
}
"""
ATOMS = [
    *"ab1_-. é,:=!<}]^$.*+?|()&~#[{", "*?", "+?", "{2}", "{1,2}", "{1,}", "{,2}", "{2,1}", "a-c", "😀", "(a)", "(a|b)",
    "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<x>", "[^", "[^]", "[]", "[a-c]", "[a&&b]", "[[a]", r"[^\d]", r"[\w-.]",
    r"[\b]", r"[\s\S]", r"[\cJ-\d]", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\n", r"\t", r"\v",
    r"\0", r"\cA", r"\cj", r"\c", r"\x41", r"\x4", r"\u0061", r"\u006", r"\u{62}", r"\ud83d\ude00", r"\/", r"\-",
    r"\.", r"\$", r"\p{L}", r"\P{Lu}", r"\p{Script=Greek}", r"\1", r"\2", r"\8", r"\07", r"\k<x>", r"\q", r"\_", "\\",
]  # fmt: skip
CHARACTERS = "aab b1_-. é,:=!<\n\t\r\x0b\0\x01\\/$ΩωÉp{}[]()*+?c\u2028\ufeff\u0661😀😀xk8#&~A\x07"


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.chaos)])
def test_patterns_match_what_node_matches(count: int) -> None:
    """With the flag u where that is valid, else without; then only texts of which each character is one unit."""
    chosen = random.Random(count)
    cases = []
    for _ in range(count):
        pattern = "".join(chosen.choices(ATOMS, k=chosen.randint(1, 7)))
        cases.append((pattern, ["".join(chosen.choices(CHARACTERS, k=chosen.randint(0, 4))) for _ in range(8)]))
    lines = "\n".join(map(json.dumps, cases))
    done = subprocess.run([NODE, "-e", SCRIPT], input=lines, capture_output=True, text=True, check=True)
    compared = 0
    for (pattern, texts), line in zip(cases, done.stdout.splitlines(), strict=True):
        valid = json.loads(line)
        if (valid is None or not valid[0]) and re.search(r"\\[pPuk]", pattern):
            continue  # without the flag these are letters, which nobody means
        if valid is None:
            with pytest.raises(PatternError):
                compiled(pattern)
            continue
        units = "" if valid[0] else "😀"
        for text, matches in zip(texts, valid[1], strict=True):
            # At \B, Node also looks between the halves of a character.
            if not (units and units in pattern + text) and not ("😀" in text and r"\B" in pattern):
                assert (compiled(pattern).search(text) is not None) == matches, (pattern, text)
                compared += 1
    assert compared > count
