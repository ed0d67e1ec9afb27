"""The arguments that commands of items share."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit, UnknownOption
from coordinator.cli.items.completing import ids
from coordinator.settings import ITEM_VARIABLE

Role = Literal["queue", "work", "review", "blocked", "terminal"]
Phase = Literal["queue", "work", "review"]

FROM_FILE = "'-': from stdin, '@FILE': from a file."
"""What the help says of ``words``."""
_DIGITS = re.compile(r"[0-9a-fA-F]{4,32}")
_ID = "UUID or 4 to 32 hex digits of its beginning; '.': the item of FLEET_ITEM_ID."
AsJson = Annotated[bool, Parameter(help="Print the tool's answer as JSON.")]
Id = Annotated[str, Parameter(help=f"The item: {_ID}", completer=ids)]
Ids = Annotated[
    str,
    Parameter(
        help=f"Items: {_ID} '-': the first word of each line of stdin. None: '.'.",
        allow_leading_hyphen=True,
        completer=ids,
    ),
]
Summary = Annotated[
    str | None, Parameter(name=("--summary", "--reason"), help="Why, or what was done: kept in the item's history.")
]
Fence = Annotated[int | None, Parameter(help="The fence of your claim: refused if the claim was lost.")]


def item(text: str, name: str = "ID") -> str:
    """An id as the tools take it.

    Args:
    Raises:
        CommandFailed: it is malformed, or the item of FLEET_ITEM_ID, which is not set; or it is a misspelt flag.
    """
    if text == ".":
        text = os.environ.get(ITEM_VARIABLE, "")
        if not text:
            raise CommandFailed(f"which item? '.' stands for that of {ITEM_VARIABLE}, which is not set", Exit.USAGE)
    if text.startswith("-"):
        raise UnknownOption(text)
    # A UUID that is cut off behind a dash is a prefix, too.
    digits = text.replace("-", "")
    if not _DIGITS.fullmatch(digits):
        raise CommandFailed(f"{name} must be a UUID or 4 to 32 hex digits of its beginning, not {text!r}", Exit.USAGE)
    return text if len(text) == 36 else digits


def items(texts: tuple[str, ...], name: str = "ID") -> list[str]:
    """Ids as the tools take them, each once; ``-`` reads stdin, and none at all is ``.``."""
    ids: list[str] = []
    for text in texts or (".",):
        if text == "-":
            lines = [line.split()[0] for line in _stdin().splitlines() if line.strip()]
            if not lines:
                raise CommandFailed("stdin names no items", Exit.USAGE)
            ids += [item(line, "stdin") for line in lines]
        else:
            ids.append(item(text, name))
    return list(dict.fromkeys(ids))


def words(text: str) -> str:
    """Text of an argument; ``-`` is stdin, ``@FILE`` a file, ``@@`` a text that begins with one ``@``."""
    if text == "-":
        return _stdin()
    if text.startswith("@@") or not text.startswith("@"):
        return text.removeprefix("@") if text.startswith("@@") else text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"cannot read {text[1:]}: {error.strerror}", Exit.USAGE) from None
    except ValueError:
        raise CommandFailed(f"cannot read {text[1:]}: it is not text in UTF-8", Exit.USAGE) from None


def given(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise CommandFailed("stdin is not text in UTF-8", Exit.USAGE) from None
