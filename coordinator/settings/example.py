"""Writes ``config/fleet.yaml``: every setting with its default, unit, limits and environment variable."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

import msgspec
from msgspec import Struct

from coordinator.settings.fields import Field, fields_of
from coordinator.settings.model import Settings

_WIDTH = 100
_HEAD = """\
# Settings of the fleet coordinator, each with its default.
# Precedence: flag > environment > this file > default. `fleet config show` prints what is in force,
# `fleet config check FILE` explains a file. What takes effect on SIGHUP to the supervisor says so below.
# Written by `fleet config example`.
"""
_PLAIN = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def example_yaml(cls: type[Struct] = Settings) -> str:
    """A config file that states every default; loading it changes nothing."""
    lines: list[str] = [_HEAD.rstrip("\n")]
    section: tuple[str, ...] = ()
    for field in fields_of(cls):
        if field.group:
            lines += ["", f"# --- {field.group} ".ljust(_WIDTH, "-")]
        lines.append("")
        parents = field.path[:-1]
        shared = sum(1 for ours, theirs in zip(parents, section, strict=False) if ours == theirs)
        lines += ["  " * depth + f"{parents[depth]}:" for depth in range(shared, len(parents))]
        section = parents
        lines += _sample(field) if field.example else _entry(field, "  " * len(parents))
    return "\n".join(lines) + "\n"


def _entry(field: Field, indent: str) -> list[str]:
    facts = [field.allowed]
    if field.unit:
        facts.append(f"unit: {field.unit}")
    if field.environment:
        facts.append(f"environment: {field.environment}" + (f" or {field.alias}" if field.alias else ""))
    if field.reload:
        facts.append("takes effect on SIGHUP")
    text = [*textwrap.wrap(field.description, _WIDTH - len(indent) - 2), "; ".join(facts)]
    lines = [f"{indent}# {line}" for line in text]
    key = field.path[-1]
    if field.default is msgspec.NODEFAULT:
        return [*lines, f"{indent}# {key}:"]
    return [*lines, f"{indent}{key}: {_value(field.default)}"]


def _sample(field: Field) -> list[str]:
    """A setting that is shown as an example, commented out."""
    text = textwrap.wrap(field.description, _WIDTH - 2)
    facts = f"{field.allowed}; only in this file; takes effect on SIGHUP" if field.reload else field.allowed
    yaml = field.example.rstrip("\n").split("\n")
    return [f"# {line}" for line in [*text, facts, "For example:", *yaml]]


def _value(value: Any) -> str:
    """The value in YAML's flow style; anything but a plain word is written as JSON, which is YAML too."""
    data = msgspec.to_builtins(value)
    if isinstance(data, str) and _PLAIN.match(data) and data.lower() not in _RESERVED:
        return data
    if isinstance(data, list):
        return "[" + ", ".join(_value(entry) for entry in data) + "]"
    return json.dumps(data)
