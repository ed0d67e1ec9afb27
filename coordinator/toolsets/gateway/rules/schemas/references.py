"""Follows the references of a schema, and finds those that lead nowhere, or in circles, before a value meets them."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jsonschema import SchemaError  # type: ignore[import-untyped]
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from coordinator.toolsets.gateway.rules.schemas.patterns import PatternError, compiled
from coordinator.toolsets.gateway.rules.schemas.validator import draft_of

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DEFINITIONS = ("$defs", "definitions")
"""Schemas there mean nothing until something refers to them."""
_IN_PLACE = ("allOf", "anyOf", "oneOf")
"""Schemas that apply to the same value."""
_MAX_SHOWN = 100


def inner_problem(schema: Mapping[str, Any]) -> str:
    """What makes a part of a schema unusable, as a sentence; empty: nothing does.

    Args:
        schema: matches the schema of its own draft.
    """
    draft = draft_of(schema)
    specification: Any = specification_with(draft.META_SCHEMA.get("$schema", ""), default=DRAFT202012)
    waiting: list[tuple[Any, Any]] = [(schema, REGISTRY.resolver_with_root(specification.create_resource(schema)))]
    same: dict[int, list[int]] = {}
    """Each schema, and those that apply to the same value, by their ``id``."""
    while waiting:
        inner, resolver = waiting.pop()
        if not isinstance(inner, Mapping) or id(inner) in same:
            continue
        same[id(inner)] = [id(part) for key in _IN_PLACE for part in inner.get(key, ())]
        for pattern in inner.get("patternProperties", ()):  # not every draft says that these are patterns
            try:
                compiled(pattern)
            except PatternError as error:
                return f"patternProperties: {pattern[:_MAX_SHOWN]!r} is not a 'regex': {error}"
        for keyword in _REFERENCES:
            if not isinstance(reference := inner.get(keyword), str):
                continue
            named = f"{keyword} {reference[:_MAX_SHOWN]!r}"
            try:
                meant = resolver.lookup(reference)
            except Unresolvable:
                return f"{named} leads nowhere; references within the schema are followed, and to drafts of JSON Schema"
            # It may be a place where the draft expects no schema, and so has not checked any.
            try:
                draft.check_schema(meant.contents, format_checker=None)
            except SchemaError:
                return f"{named} leads to what is no JSON Schema"
            waiting.append((meant.contents, meant.resolver))
            same[id(inner)].append(id(meant.contents))
        rest = {key: value for key, value in inner.items() if key not in _DEFINITIONS}
        waiting += [
            (part, resolver.in_subresource(specification.create_resource(part)))
            for part in specification.subresources_of(rest)
        ]
    try:
        TopologicalSorter(same).prepare()
    except CycleError:
        return "references lead in a circle: a schema applies to the same value as itself"
    return ""
