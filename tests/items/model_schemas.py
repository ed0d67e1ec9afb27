"""A simple model of note schemas: which notes an item needs, and their state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Need = dict[str, Any]
"""A note as the configuration declares it."""

NONE: dict[str, Any] = {"work_item_schemas": {}}


@dataclass
class Note:
    """A written note, stored under its key."""

    role: str
    body: str = ""
    author: str = ""
    id: str = ""
    created: str = ""

    @property
    def filled(self) -> bool:
        return self.body.strip() != ""


Notes = dict[str, Note]


@dataclass
class Schema:
    """The schema of one item: a declared one with the notes of its traits."""

    lifecycle: str
    needs: list[Need]

    @property
    def has_review(self) -> bool:
        return any(need["role"] == "review" for need in self.needs)

    @property
    def follows_children(self) -> bool:
        """Whether the item ends with its last child."""
        return self.lifecycle not in ("manual", "permanent")

    def required(self, role: str | None = None) -> list[Need]:
        """Of one phase, or of all."""
        return [need for need in self.needs if need.get("required") and role in (None, need["role"])]

    def missing(self, notes: Notes, role: str | None = None) -> list[Need]:
        return [need for need in self.required(role) if need["key"] not in notes or not notes[need["key"]].filled]

    def expected(self, notes: Notes, role: str | None = None) -> list[Need]:
        """The notes of one phase, or of all, in answers."""
        plain = {"required": False, "description": ""}
        wanted = [need for need in self.needs if role in (None, need["role"])]
        return [plain | need | {"exists": need["key"] in notes} for need in wanted]


def resolve(declared: dict[str, Any], kind: str | None, tags: str | None, traits: list[str]) -> Schema | None:
    """By type, else by the first tag that names a schema, else the default; of notes with one key the first counts."""
    schemas = declared["work_item_schemas"]
    names = [kind, *(tag.strip() for tag in (tags or "").split(",")), declared.get("default")]
    found = next((schemas[name] for name in names if name in schemas), None)
    if found is None:
        return None
    needs = list(found["notes"])
    for trait in (*found.get("default_traits", []), *traits):
        for need in declared["traits"].get(trait, {"notes": []})["notes"]:
            if need["key"] not in [each["key"] for each in needs]:
                needs.append(need)
    return Schema(found.get("lifecycle", "auto"), needs)


def standing(schema: Schema | None, role: str, notes: Notes) -> dict[str, Any]:
    """The missing notes of the current phase, in answers."""
    if schema is None or role == "terminal":
        return {"guidancePointer": None, "noteProgress": None}
    total, missing = len(schema.required(role)), schema.missing(notes, role)
    first = missing[0] if missing else {}
    shown: dict[str, Any] = {
        "guidancePointer": first.get("guidance"),
        "noteProgress": {"filled": total - len(missing), "remaining": len(missing), "total": total},
    }
    return shown | ({"skillPointer": first["skill"]} if "skill" in first else {})
