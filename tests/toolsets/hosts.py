"""The subsets of JSON Schema that models accept for the arguments of a tool, as their vendors publish them.

Each function gives what it finds wrong, with its place. The limits:

- OpenAI, strict mode (developers.openai.com, Structured Outputs, Supported schemas): the root is an object without
  ``anyOf``; objects are closed; arrays say what their elements are; at most 10 levels of objects, 5,000 properties,
  1,000 values in an enum, 120,000 characters of names and values; patterns do not look around.
- Gemini (ai.google.dev, Function calling, Schema): a type for everything, which is one name, or ``anyOf`` alone;
  values of an enum are strings; no references, tuples or other combinations.
- Anthropic (platform.claude.com, Tool use): no ``oneOf``, ``allOf`` or ``anyOf`` at the root; no references; names of
  properties have up to 64 letters, digits, underscores, dots and hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

COMBINED = ("oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties")
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
GEMINI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class Found(NamedTuple):
    """A schema within one."""

    path: str
    node: Json
    depth: int
    """The enclosing objects."""


def parts(node: Json, path: str = "", depth: int = 0) -> Iterator[Found]:
    """A schema and every one within it."""
    yield Found(path or "root", node, depth)
    inside = depth + (node.get("type") == "object")
    for key in ("properties", "$defs", "patternProperties"):
        for name, one in node.get(key, {}).items():
            yield from parts(one, f"{path}.{name}", inside)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, one in enumerate(node.get(key, ())):
            yield from parts(one, f"{path}<{number}>", depth)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from parts(node[key], f"{path}[]" if key == "items" else f"{path}.*", inside)


def openai_strict(schema: Json) -> list[str]:
    """Violations of OpenAI's strict mode, even after an SDK has made every property required."""
    found = list(parts(schema))
    wrong = [] if schema.get("type") == "object" and "anyOf" not in schema else ["root: is not a plain object"]
    for path, node, depth in found:
        wrong += [f"{path}: {key}" for key in COMBINED if key in node]
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            wrong.append(f"{path}: is an open object")
        if node.get("type") == "array" and not {"type", "anyOf", "enum", "$ref"} & node.get("items", {}).keys():
            wrong.append(f"{path}: does not say what its elements are")
        if "$ref" in node and node.keys() - {"$ref", "description", "default"}:
            wrong.append(f"{path}: has a reference with more beside it")
        if depth > 10:
            wrong.append(f"{path}: is nested deeper than 10 objects")
        if len(node.get("enum", ())) > 1000:
            wrong.append(f"{path}: lists more than 1000 values")
        if re.search(r"\(\?[=!<]", node.get("pattern", "")):
            wrong.append(f"{path}: its pattern looks around")
    names = [name for _, node, _ in found for name in node.get("properties", {})]
    texts = names + [value for _, node, _ in found for value in node.get("enum", ()) if isinstance(value, str)]
    if len(names) > 5000 or sum(map(len, texts)) > 120_000:
        wrong.append("root: is too large")
    return wrong


def gemini(schema: Json) -> list[str]:
    """Violations of Gemini's Schema, and parts that it would misread."""
    wrong = [] if schema.get("type") == "object" else ["root: is not an object"]
    for path, node, _ in parts(schema):
        wrong += [f"{path}: {key}" for key in (*COMBINED, "$ref", "const", "prefixItems") if key in node]
        if ("type" in node) == ("anyOf" in node):
            wrong.append(f"{path}: has neither a type nor alternatives, or both")
        if "type" in node and (not isinstance(node["type"], str) or node["type"] not in TYPES):
            wrong.append(f"{path}: its type is not one name")
        if "anyOf" in node and node.keys() - {"anyOf", "description", "default"}:
            wrong.append(f"{path}: keywords beside alternatives")
        if node.get("type") == "array" and not node.get("items"):
            wrong.append(f"{path}: an array without items")
        if "enum" in node and (node.get("type") != "string" or not all(isinstance(one, str) for one in node["enum"])):
            wrong.append(f"{path}: an enum that is not of strings")
        wrong += [f"{path}: the name {name}" for name in node.get("properties", {}) if not GEMINI_NAME.fullmatch(name)]
        wrong += [
            f"{path}: requires {one}" for one in node.get("required", ()) if one not in node.get("properties", {})
        ]
    return wrong


def anthropic(schema: Json) -> list[str]:
    """Parts that the Messages API rejects in an ``input_schema``."""
    wrong = [] if schema.get("type") == "object" else ["root: is not an object"]
    wrong += [f"root: {key}" for key in ("oneOf", "allOf", "anyOf") if key in schema]
    for path, node, _ in parts(schema):
        wrong += [f"{path}: a reference"] if "$ref" in node else []
        wrong += [f"{path}: the name {name}" for name in node.get("properties", {}) if not NAME.fullmatch(name)]
    return wrong


def result(schema: Json) -> list[str]:
    """Parts of an output schema that break code generators and validators of hosts."""
    wrong = [] if schema.get("type") == "object" else ["root: is not an object"]
    for path, node, _ in parts(schema):
        if "enum" in node and not isinstance(node.get("type"), str):
            wrong.append(f"{path}: an enum without a type")
        if isinstance(node.get("type"), list):
            wrong.append(f"{path}: more than one type")
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            wrong.append(f"{path}: an array without items")
    return wrong
