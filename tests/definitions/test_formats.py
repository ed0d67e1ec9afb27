"""The JSON Schemas of definition files, against real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from coordinator.definitions import toon
from coordinator.definitions.formats import json_schemas
from tests.support.workflows import roots

SCHEMAS = json_schemas()
FILES = {"workflow": "*/workflow.toon", "activity": "*/activities/??-*.toon", "skill": "*/skills/??-*.toon"}


def departures(kind: str, data: Any) -> list[str]:
    return [error.message for error in jsonschema_rs.Draft202012Validator(SCHEMAS[kind]).iter_errors(data)]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_each_is_a_schema(kind: str) -> None:
    assert SCHEMAS[kind]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(SCHEMAS[kind])


@pytest.mark.parametrize("root", roots(), ids=lambda root: root.name)
@pytest.mark.parametrize("kind", FILES)
def test_files_match_their_schemas(kind: str, root: Path) -> None:
    found = {str(path): departures(kind, toon.read(path.read_text()).data) for path in root.glob(FILES[kind])}
    assert found
    assert not {path: problems for path, problems in found.items() if problems}


HEAD = {"id": "a", "version": "1.0.0"}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("workflow", HEAD),
        ("workflow", {**HEAD, "title": "A", "version": "1.0"}),
        ("workflow", {**HEAD, "title": "A", "version": "1.0.0\n"}),
        ("workflow", {**HEAD, "title": "A", "activities": []}),
        ("activity", {**HEAD, "name": "A", "steps": [{"id": "s"}]}),
        ("activity", {**HEAD, "name": "A", "checkpoints": [{"id": "c", "name": "C", "message": "?", "options": []}]}),
        ("skill", HEAD),
        ("skill", {**HEAD, "capability": "b", "protocol": ["first this"]}),
        ("condition", {"type": "simple", "variable": "v", "operator": "~"}),
        ("condition", {"type": "neither", "conditions": []}),
    ],
)
def test_wrong_files_do_not_match(kind: str, data: Any) -> None:
    assert departures(kind, data)


def test_conditions_are_nested() -> None:
    inner = {"type": "simple", "variable": "v", "operator": "exists"}
    assert not departures("condition", {"type": "and", "conditions": [inner, {"type": "not", "condition": inner}]})
