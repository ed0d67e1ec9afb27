"""Reads a YAML file into plain data plus the line of every entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from coordinator.settings.problems import SettingsError

Lines = dict[tuple[str | int, ...], int]

_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def read_yaml(path: Path) -> tuple[dict[str, Any], Lines]:
    """The file's top-level mapping, and the line (from 1) of every key and list entry.

    Raises:
        SettingsError: unreadable, not YAML, a repeated key, an unknown tag, something that
            refers to itself, or not a mapping at the top.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError([f"cannot read the config file {path}: {reason}"]) from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> tuple[dict[str, Any], Lines]:
    """``read_yaml`` of a text that was read already from ``path``.

    Raises:
        SettingsError: as there.
    """
    try:
        root = YAML(typ="safe", pure=True).compose(text)
        lines: Lines = {}
        if root is not None:
            _collect(path, root, (), lines, [])
        data = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise SettingsError([f"{where}: {_reason(error)}"]) from None
    except (YAMLError, ValueError, LookupError, TypeError, RecursionError) as error:
        # The latter are ruamel's way of saying that a value does not fit its tag (a 13th month) or is too deep.
        raise SettingsError([f"{path}: not valid YAML: {error}"]) from None
    if data is None:
        return {}, {}
    if not isinstance(data, dict):
        raise SettingsError([f"{path}:1: the file must be a mapping of settings (name: value)"])
    return data, lines


def _collect(path: Path, node: Node, at: tuple[str | int, ...], lines: Lines, above: list[Node]) -> None:
    if any(node is one for one in above):
        raise SettingsError([f"{path}:{node.start_mark.line + 1}: an alias refers to what holds it"])
    above.append(node)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.tag not in _KEY_TAGS:
                what = repr(key.value) if isinstance(key, ScalarNode) else "a list or mapping"
                raise SettingsError([f"{path}:{key.start_mark.line + 1}: keys must be text, not {what}"])
            lines[(*at, key.value)] = key.start_mark.line + 1
            _collect(path, value, (*at, key.value), lines, above)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*at, index)] = value.start_mark.line + 1
            _collect(path, value, (*at, index), lines, above)
    above.pop()


def _reason(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or "not valid YAML").strip()
    first = problem.splitlines()[0]
    if first.startswith("found duplicate key"):
        return first.replace("found duplicate key", "the key is there twice:").split(" with value")[0]
    return f"not valid YAML: {first}"
