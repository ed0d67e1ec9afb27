"""Patterns of JSON Schema, which are regular expressions of ECMA-262, in the syntax of ``regex``.

What the two write alike often means something else: in ``regex``, ``$`` also matches before a last line break, ``\\d``
digits of any script, ``a++`` is possessive, a reference to a group that did not take part never matches. So a pattern
is read by the grammar of ECMA-262 and written anew.

Authors write patterns with the flag ``u`` and without it, and the schema does not say which. So both are read: what is
valid without the flag only (Annex B: ``[\\w-.]``, ``\\_``, a lone ``]``) and what it adds (``\\p{L}``, ``\\u{1F600}``);
texts are characters, never halves of surrogate pairs. Spellings of other languages are read where ECMA-262 has none,
or one that nobody means: ``(?i)`` at the beginning, ``(?P<name>...)``, ``(?P=name)``, ``\\A``, ``\\z`` and ``\\Z``.

Captures are kept as in ``regex``: a group within a repeated one keeps its text until it matches again.
"""

from __future__ import annotations

import re
from functools import lru_cache

import regex  # type: ignore[import-untyped]

MAX_LENGTH = 10_000
"""Most characters of a pattern."""
MAX_DEPTH = 100
"""Most groups within each other."""
_MOST_TIMES = 100_000
"""No text that is checked is longer, so more repetitions mean the same."""
_ENDS = r"\n\r\u2028\u2029"
_SETS = {
    "d": r"0-9",
    "D": r"\x00-\x2f\x3a-\U0010ffff",
    "w": r"A-Za-z0-9_",
    "W": r"\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\U0010ffff",
    "s": r"\t-\r\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    "S": r"\x00-\x08\x0e-\x1f\x21-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    r"\u3001-\ufefe\uff00-\U0010ffff",
}
"""What these stand for, as the inside of a class."""
_BOUNDARY = r"(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))"
_NO_BOUNDARY = r"(?:(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<![A-Za-z0-9_])(?![A-Za-z0-9_]))"
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_GROUP = re.compile(r"\(\?P?<(?P<name>[^>=!][^>]*)>")
_COUNTED = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_FLAGS = re.compile(r"\(\?([ims]*)(?:-([ims]*))?:")
_GLOBAL_FLAGS = re.compile(r"\(\?([ims]+)\)")
_PROPERTY = re.compile(r"([pP])\{([A-Za-z]\w*(?:=\w+)?)\}", re.ASCII)
_NAMED = re.compile(r"k<([^>]*)>")
_NAMED_BACK = re.compile(r"\(\?P=([^)]*)\)")
_NUMBER = re.compile(r"[1-9][0-9]*")
_CONTROL, _CONTROL_IN_CLASS = re.compile(r"c([A-Za-z])"), re.compile(r"c([A-Za-z0-9_])")
_AHEAD, _BEHIND, _CAPTURE = re.compile(r"\(\?[=!]"), re.compile(r"\(\?<[=!]"), re.compile(r"\((?!\?)")
_BRACED = re.compile(r"u\{([0-9a-fA-F]{1,8})\}")
_PAIR = re.compile(r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_HEX = re.compile(r"u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})")
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|\((?!\?)|" + _GROUP.pattern, re.DOTALL)


class PatternError(ValueError):
    """A text is no regular expression of ECMA-262. The message says why, as a part of a sentence."""


@lru_cache(1024)
def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern for ``search`` of ``regex``, which takes a timeout.

    Raises:
        PatternError: it cannot be used.
    """
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"it has {len(pattern)} characters; allowed: at most {MAX_LENGTH}")
    written = _Reader(pattern).written()
    try:
        return regex.compile(written)
    except (regex.error, OverflowError, RecursionError) as error:
        raise PatternError(getattr(error, "msg", str(error))) from None


class _Reader:
    """Reads one pattern by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = self._depth = 0
        self._flags: frozenset[str] = frozenset()
        self._count = self._begun = 0
        """How many groups capture, and how many of them were read."""
        self._open: set[int] = set()
        """Groups that are being read."""
        self._names: dict[str, list[int]] = {}
        for token in _TOKEN.finditer(pattern):
            if token[0].startswith("("):
                self._count += 1
                if name := token["name"]:
                    if not name.replace("$", "_").isidentifier():
                        raise PatternError(f"{name!r} is no name of a group")
                    self._names.setdefault(name, []).append(self._count)

    def written(self) -> str:
        if match := self._take(_GLOBAL_FLAGS):
            self._flags = frozenset(match[1])
        made = self._alternatives()
        if self._at < len(self._text):
            raise PatternError("there is a ')' without '('")
        return f"(?i:{made})" if match and "i" in match[1] else made

    def _take(self, what: re.Pattern[str]) -> re.Match[str] | None:
        """Reads what comes next if it has this form."""
        if (match := what.match(self._text, self._at)) is not None:
            self._at = match.end()
        return match

    def _skip(self, what: str) -> bool:
        """Reads what comes next if it is this."""
        if there := self._text.startswith(what, self._at):
            self._at += len(what)
        return there

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text) and self._next() != ")":
            parts.append("|" if self._skip("|") else self._term())
        return "".join(parts)

    def _term(self) -> str:
        atom, repeatable = self._atom()
        times = self._times()
        if times and not repeatable:
            raise PatternError("there is nothing to repeat")
        if times and self._times():
            raise PatternError("a repetition is repeated")
        return f"(?:{atom}){times}" if times else atom

    def _times(self) -> str:
        """Reads how often something is repeated; empty: once."""
        character = self._next()
        if character and character in "*+?":
            self._at += 1
            times = character
        elif match := self._take(_COUNTED):
            low, high = _number(match[1]), _number(match[3] or "")
            if match[3] and high < low:
                raise PatternError("the numbers of a repetition are out of order")
            upto = min(high, _MOST_TIMES) if match[3] else ""
            times = f"{{{min(low, _MOST_TIMES)}{match[2] or ''}{upto}}}"
        else:
            return ""
        return times + ("?" if self._skip("?") else "")

    def _atom(self) -> tuple[str, bool]:
        """Reads what can be repeated, and what cannot."""
        character = self._next()
        if character == "(":
            return self._group()
        if character in "*+?" or (character == "{" and _COUNTED.match(self._text, self._at)):
            raise PatternError("there is nothing to repeat")
        self._at += 1
        if character == "^":
            return (f"(?<![^{_ENDS}])" if "m" in self._flags else r"\A"), False
        if character == "$":
            return (f"(?![^{_ENDS}])" if "m" in self._flags else r"\Z"), False
        if character == ".":
            return (r"[\x00-\U0010ffff]" if "s" in self._flags else f"[^{_ENDS}]"), True
        if character == "[":
            return self._class(), True
        if character == "\\":
            return self._escape()
        return _literal(ord(character)), True

    def _group(self) -> tuple[str, bool]:
        flags = self._flags
        repeatable = True
        number = 0
        if self._skip("(?:"):
            begin = "(?:"
        elif match := self._take(_AHEAD):
            begin = match[0]
        elif match := self._take(_BEHIND):
            begin, repeatable = match[0], False
        elif match := self._take(_FLAGS):
            on, off = match[1], match[2] or ""
            if len(set(on + off)) < len(on + off) or not on + off:
                raise PatternError("a group has a flag twice, or none")
            self._flags = (self._flags | set(on)) - set(off)
            begin = "(?i:" if "i" in on else "(?-i:" if "i" in off else "(?:"
        elif match := self._take(_NAMED_BACK):
            return self._reference(match[1]), True
        elif self._take(_GROUP) or self._take(_CAPTURE):
            self._begun += 1
            begin, number = "(", self._begun
            self._open.add(number)
        else:
            raise PatternError(f"it has {self._text[self._at : self._at + 3]!r}, which is no group")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError(f"groups are nested more than {MAX_DEPTH} deep")
        inner = self._alternatives()
        self._depth -= 1
        if not self._skip(")"):
            raise PatternError("a '(' is not closed")
        self._flags = flags
        self._open.discard(number)
        return f"{begin}{inner})", repeatable

    def _reference(self, name: str) -> str:
        if name not in self._names:
            raise PatternError(f"there is no group {name!r}")
        return "".join(map(self._back, self._names[name]))

    def _back(self, number: int) -> str:
        """A reference to a group. It is empty if the group did not take part, and within the group itself."""
        return "(?:)" if number in self._open else f"(?:(?({number})\\{number}))"

    def _escape(self) -> tuple[str, bool]:
        """Reads what follows a backslash, outside of a class."""
        character = self._next()
        if character and character in "bB":
            self._at += 1
            return (_BOUNDARY if character == "b" else _NO_BOUNDARY), False
        if character and character in "AzZ":
            self._at += 1
            return (r"\A" if character == "A" else r"\Z"), False
        if self._names and character == "k":
            if not (match := self._take(_NAMED)):
                raise PatternError("\\k has no name of a group")
            return self._reference(match[1]), True
        number = _NUMBER.match(self._text, self._at)
        if number and _number(number[0]) <= self._count:
            self._at = number.end()
            return self._back(_number(number[0])), True
        found_set = self._set()
        return (f"[{found_set}]" if found_set else _literal(self._character(in_class=False))), True

    def _set(self) -> str:
        """Reads a set of characters after a backslash; empty: there is none."""
        if match := self._take(_PROPERTY):
            return f"\\{match[1]}{{{match[2]}}}"
        if found_set := _SETS.get(self._next(), ""):
            self._at += 1
        return found_set

    def _character(self, *, in_class: bool) -> int:
        """Reads a character after a backslash."""
        character = self._next()
        if not character:
            raise PatternError("it ends with a backslash")
        if character in _CONTROLS:
            self._at += 1
            return _CONTROLS[character]
        if in_class and character == "b":
            self._at += 1
            return 8
        if character == "c":
            if match := self._take(_CONTROL_IN_CLASS if in_class else _CONTROL):
                return ord(match[1]) % 32
            return ord("\\")  # and the c is read again
        if match := self._take(_BRACED):
            if (code := int(match[1], 16)) > 0x10FFFF:
                raise PatternError(f"there is no character {match[1]}")
            return code
        if match := self._take(_PAIR):
            high, low = int(match[1], 16), int(match[2], 16)
            return 0x10000 + ((high - 0xD800) << 10) + low - 0xDC00
        if match := self._take(_HEX):
            return int(match[1] or match[2], 16)
        if match := self._take(_OCTAL):
            return int(match[0], 8)
        self._at += 1
        return ord(character)

    def _class(self) -> str:
        """Reads a class, behind its bracket."""
        negated = bool(self._skip("^"))
        items: list[str] = []
        while not self._skip("]"):
            low = self._member()
            if self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
                if isinstance(low, int) and isinstance(high, int):
                    if low > high:
                        raise PatternError("the ends of a range are out of order")
                    items.append(f"{_literal(low)}-{_literal(high)}")
                    continue
                items += [_item(low), _literal(ord("-")), _item(high)]
                continue
            items.append(_item(low))
        if not items:
            return r"[\x00-\U0010ffff]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{''.join(items)}]"

    def _member(self) -> int | str:
        """Reads a character of a class, or a set of characters."""
        character = self._next()
        if not character:
            raise PatternError("a '[' is not closed")
        self._at += 1
        if character != "\\":
            return ord(character)
        return self._set() or self._character(in_class=True)


def _item(member: int | str) -> str:
    return _literal(member) if isinstance(member, int) else member


def _literal(code: int) -> str:
    if code < 128 and chr(code).isalnum():
        return chr(code)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:9] or 0)
