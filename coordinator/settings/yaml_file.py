"""Reads a YAML file into plain data, together with the line of every entry."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from coordinator.settings.paths import unblocked
from coordinator.settings.problems import KeyPath, SettingsError, short

Lines = dict[KeyPath, int]

MAX_BYTES = 16 * 1024 * 1024
"""The largest file."""
MAX_ENTRIES = 1_000_000
"""Entries of a file. Each use of an alias counts all its entries again, so even a small file may have too many."""
_REASON_MOST = 200
"""Characters of a message of the parser, which may quote the file."""
_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def read_yaml(path: Path) -> tuple[dict[str, Any], Lines]:
    """The file's top-level mapping, and the line (from 1) of every key and list entry.

    Raises:
        SettingsError: unreadable, not YAML, a repeated key, an unknown tag, an alias within its own value, or not a
            mapping at the top.
    """
    text, reason = text_of(path, pipes=True)
    if text is None:
        raise SettingsError([f"cannot read the config file {path}: {reason}"])
    return parse_yaml(text, path)


def text_of(path: Path, *, pipes: bool = False) -> tuple[str | None, str]:
    """The text of a file; or None, and why it cannot be read.

    Args:
        pipes: whether it may be a pipe, which is read to its end; otherwise it must be a regular file.
    """
    try:
        with open(path, "rb", opener=None if pipes else unblocked) as file:
            readable = pipes or stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_BYTES + 1) if readable else None
    except OSError as error:
        return None, error.strerror or "it cannot be opened"
    except ValueError:
        return None, "no file can have this name"
    if data is None:
        return None, "it is not a regular file"
    if len(data) > MAX_BYTES:
        return None, f"it is larger than {MAX_BYTES} bytes"
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return None, "it is not UTF-8 text"


def parse_yaml(text: str, path: Path) -> tuple[dict[str, Any], Lines]:
    """``read_yaml`` of a text that was read already from ``path``.

    Raises:
        SettingsError: as there.
    """
    try:
        yaml = YAML(typ="safe", pure=True)
        root = yaml.compose(text)
        lines: Lines = {}
        if root is not None:
            _collect(path, root, (), lines, [])
        data = yaml.constructor.construct_document(root) if root is not None else None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise SettingsError([f"{where}: {_reason(error)}"]) from None
    except (YAMLError, ValueError, LookupError, TypeError, RecursionError) as error:
        # ruamel raises the others for values that do not fit their tag (a 13th month) or are nested too deep.
        raise SettingsError([f"{path}: not valid YAML: {error}"]) from None
    if data is None:
        return {}, {}
    if not isinstance(data, dict):
        raise SettingsError([f"{path}:1: the file must be a mapping of settings (name: value)"])
    return data, lines


def _collect(path: Path, node: Node, at: KeyPath, lines: Lines, above: list[Node]) -> None:
    if any(node is one for one in above):
        raise SettingsError([f"{path}:{node.start_mark.line + 1}: an alias refers to a value that contains it"])
    above.append(node)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.tag not in _KEY_TAGS:
                what = repr(key.value) if isinstance(key, ScalarNode) else "a list or mapping"
                raise SettingsError([f"{path}:{key.start_mark.line + 1}: keys must be text, not {what}"])
            _check_text(path, key)
            _note(path, lines, (*at, key.value), key)
            _collect(path, value, (*at, key.value), lines, above)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            _note(path, lines, (*at, index), value)
            _collect(path, value, (*at, index), lines, above)
    else:
        _check_text(path, node)
    above.pop()


def _check_text(path: Path, scalar: Node) -> None:
    """Rejects half of a surrogate pair: an escape can produce it, but it cannot be written as UTF-8 later."""
    try:
        scalar.value.encode()
    except UnicodeEncodeError:
        raise SettingsError([f"{path}:{scalar.start_mark.line + 1}: half of a surrogate pair is not text"]) from None


def _note(path: Path, lines: Lines, at: KeyPath, node: Node) -> None:
    if len(lines) >= MAX_ENTRIES:
        message = f"more than {MAX_ENTRIES} entries; the content of an alias counts wherever it is used"
        raise SettingsError([f"{path}:{node.start_mark.line + 1}: {message}"])
    lines[at] = node.start_mark.line + 1


def _reason(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or "not valid YAML").strip()
    first = problem.splitlines()[0]
    if first.startswith("found duplicate key"):
        return first.replace("found duplicate key", "the key is there twice:").split(" with value")[0]
    return f"not valid YAML: {short(first, _REASON_MOST)}"
