"""Checks the fields of items against their limits, and builds items for the scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.errors import ToolFailure, invalid
from coordinator.settings.attempts import LONGEST_BACKOFF_SECONDS, MOST_ATTEMPTS
from coordinator.toolsets.items.contract.base import ROLES
from coordinator.toolsets.items.contract.edits import ShownItem
from coordinator.toolsets.items.contract.items import ItemSpec
from coordinator.toolsets.items.contract.usage import Budget
from coordinator.toolsets.items.rules import due_times, json_text
from coordinator.toolsets.items.rules.refusals import refused_id
from coordinator.toolsets.items.rules.resources import demands
from coordinator.toolsets.items.rules.roles import PRIORITY_CODES, PRIORITY_NAMES, ROLE_CODES, one_of
from coordinator.toolsets.items.rules.usage import limits

MAX_TITLE = 500
MAX_SUMMARY = 2000
MAX_NOTE_KEY = 200
MAX_TEXT = 500_000
"""Bytes of a long text. Limited because the store's time for a text grows with its length."""
MAX_TYPE = 200
MAX_LABEL = 200
MAX_TAGS = 32
MAX_TAGS_ASKED = 20
"""The most tags of a search or a selector."""
MAX_TRAITS = 32
MAX_NAME = 100
"""Characters of a tag or of a trait's name."""
TAG = re.compile(r"[a-z0-9][a-z0-9_.:/-]*")
"""The syntax of a tag."""
TAG_SYNTAX = "lower-case letters, digits, '-', '_', '.', ':' and '/', and begin with a letter or digit"
_BLANK = re.compile(r"[^\S \t\n\v\f\r]")
"""White space outside ASCII, which patterns of Lua do not recognize."""


class NewItem(NamedTuple):
    """A new item for ``lua/changes/creation.lua``; '' and 0: not given."""

    id: str
    parent: str
    title: str
    summary: str
    role: int
    priority: int
    complexity: int
    tags: str
    type: str
    status_label: str
    requires_verification: bool
    description: str
    metadata: str
    properties: str
    traits: str
    level: int = 0
    """Its level in the order of dependencies."""
    blockers: int = 0
    """The number of unsatisfied dependencies."""
    max_attempts: int = -1
    """-1: not given."""
    backoff: int = -1
    """Seconds; -1: not given."""
    requires: str = ""
    """Capabilities of the agents that may take it, in order, separated by commas."""
    resources: str | None = None
    """What it demands (``lua/resources/demands.lua``), '' for nothing; None: as its schema and traits say."""
    due_times: due_times.Fields | Literal[""] = ""
    """What it says about time."""
    further: dict[str, str] | bool = False
    """Texts of further fields, by their names in ``lua/layout/items.lua``; False: none."""


def given(value: Any) -> Any:
    """The value; None if it is absent."""
    return None if value is UNSET else value


def title(value: Any) -> str:
    """The title. Raises ToolFailure VALIDATION_ERROR unless it has 1 to 500 characters and is not blank."""
    text = given(value)
    if text is None or not text.strip():
        raise invalid("title", "is required and must not be blank")
    if len(text) > MAX_TITLE:
        raise invalid("title", f"must be at most {MAX_TITLE} characters, not {len(text)}")
    return cast("str", text)


def summary(value: Any) -> str:
    """The summary, '' for a blank one and none. Raises ToolFailure VALIDATION_ERROR over 2000 characters."""
    text = not_blank(value)
    if len(text) > MAX_SUMMARY:
        raise invalid("summary", f"must be at most {MAX_SUMMARY} characters, not {len(text)}")
    return text


def tags(value: Any, field: str = "tags", most: int = MAX_TAGS) -> str:
    """The tags as given, '' for none. White space outside ASCII becomes spaces, so that scripts can split the tags.

    Tags are limited because each one is an entry in the index.

    Raises:
        ToolFailure: VALIDATION_ERROR for a malformed tag, or too many or too long ones.
    """
    text = given(value)
    if text is None or not text.strip():
        return ""
    names = _listed(text)
    if len(names) > most or len(text) > (most + 1) * (MAX_NAME + 2):
        raise invalid(field, f"must be at most {most} tags")
    for tag in names:
        if not TAG.fullmatch(tag):
            raise invalid(field, f"'{tag[:64]}' must be {TAG_SYNTAX}")
        if len(tag) > MAX_NAME:
            raise invalid(field, f"'{tag[:64]}...' must be at most {MAX_NAME} characters")
    return _BLANK.sub(" ", text)


def capabilities(names: Sequence[str], field: str) -> list[str]:
    """Capabilities in order, each once. Their limits are those of tags.

    Raises:
        ToolFailure: VALIDATION_ERROR naming a malformed one, or if there are too many.
    """
    if len(names) > MAX_TAGS:
        raise invalid(field, f"must be at most {MAX_TAGS} capabilities")
    for number, name in enumerate(names):
        if not TAG.fullmatch(name):
            raise invalid(f"{field}[{number}]", f"'{name[:64]}' must be {TAG_SYNTAX}")
        if len(name) > MAX_NAME:
            raise invalid(f"{field}[{number}]", f"'{name[:64]}...' must be at most {MAX_NAME} characters")
    return sorted(set(names))


def type_name(value: Any, field: str = "type") -> str:
    """The type, '' for none. Raises ToolFailure VALIDATION_ERROR over 200 characters."""
    text = not_blank(value)
    if len(text) > MAX_TYPE:
        raise invalid(field, f"must be at most {MAX_TYPE} characters")
    return text


def complexity(value: Any) -> int:
    """1 to 10, 0 for none. Raises ToolFailure VALIDATION_ERROR for any other."""
    number = given(value)
    if number is None:
        return 0
    if not 1 <= number <= 10:
        raise invalid("complexity", f"must be 1 to 10 or null, not {number}")
    return cast("int", number)


def max_attempts(value: Any) -> int | None:
    """maxAttempts, None for none. Raises ToolFailure VALIDATION_ERROR unless it is 0 to 1000."""
    return _count(value, "maxAttempts", MOST_ATTEMPTS)


def backoff(value: Any) -> int | None:
    """retryBackoffSeconds, None for none. Raises ToolFailure VALIDATION_ERROR unless it is 0 to 86,400."""
    return _count(value, "retryBackoffSeconds", LONGEST_BACKOFF_SECONDS)


def _count(value: Any, field: str, most: int) -> int | None:
    number = given(value)
    if number is not None and not 0 <= number <= most:
        raise invalid(field, f"must be 0 to {most:,} or null, not {number}")
    return cast("int | None", number)


def priority(value: Any) -> int:
    """The priority's code. Raises ToolFailure VALIDATION_ERROR for any other."""
    return PRIORITY_CODES[one_of(not_blank(value) or "medium", PRIORITY_NAMES, "priority")]


def role(value: Any) -> int:
    """The role's code. Raises ToolFailure VALIDATION_ERROR for any other."""
    return ROLE_CODES[one_of(not_blank(value) or "queue", ROLES, "role")]


def not_blank(value: Any) -> str:
    """The text; '' if it is blank or absent."""
    text: str | None = given(value)
    return text if text and text.strip() else ""


def short_text(text: str, field: str, most: int) -> str:
    """The text. Raises ToolFailure VALIDATION_ERROR unless it has 1 to ``most`` characters and is not blank."""
    if not text.strip() or len(text) > most:
        raise invalid(field, f"must be 1 to {most} characters, not blank")
    return text


def long_text(value: Any, field: str) -> str:
    """A description, metadata, properties or the body of a note; '' if it is blank or absent.

    Raises:
        ToolFailure: VALIDATION_ERROR over 500,000 bytes.
    """
    text = not_blank(value)
    if size(text) > MAX_TEXT:
        raise invalid(field, f"must be at most {MAX_TEXT:,} bytes, not {size(text):,}")
    return text


def size(text: str) -> int:
    """The bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list: trimmed, without empty and repeated ones."""
    return list(dict.fromkeys(_listed(text)))


def _listed(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def traits(names: list[str], field: str = "traits") -> str:
    """The stored form of traits. Raises ToolFailure VALIDATION_ERROR for too many or too long ones."""
    if len(names) > MAX_TRAITS or any(len(name) > MAX_NAME for name in names):
        raise invalid(field, f"must be at most {MAX_TRAITS} traits of at most {MAX_NAME} characters")
    return ",".join(names)


def label(value: Any) -> str:
    """The status label, '' for none. Raises ToolFailure VALIDATION_ERROR over 200 characters."""
    text = not_blank(value)
    if len(text) > MAX_LABEL:
        raise invalid("statusLabel", f"must be at most {MAX_LABEL} characters, not {len(text)}")
    return text


def properties(value: Any) -> tuple[str, list[str] | None]:
    """The properties as given, '' for none, and the traits in them; None: no member ``traits``.

    Raises:
        ToolFailure: VALIDATION_ERROR: it is no JSON object, or its traits are no list of names.
    """
    text = long_text(value, "properties")
    if not text:
        return "", None
    if problem := json_text.problem(text):
        raise invalid("properties", problem)
    members = json_text.members(text)
    if members is None:
        raise invalid("properties", "must be a JSON object as a string")
    if "traits" not in members:
        return text, None
    try:
        named = msgspec.json.decode(members["traits"], type=str | list[str] | None)
    except msgspec.DecodeError:
        raise invalid("properties.traits", "must be a list of names, or names with commas between them") from None
    return text, _trait_names(named)


def metadata(value: Any) -> str:
    """The metadata as given, '' for none. They are free text, but what begins with ``{`` or ``[`` must be JSON.

    Raises:
        ToolFailure: VALIDATION_ERROR: over 500,000 bytes, or an object or array that is no JSON.
    """
    text = long_text(value, "metadata")
    if text.lstrip()[:1] in ("{", "[") and (problem := json_text.problem(text)):
        raise invalid("metadata", f"{problem} (text that begins with {{ or [ must be JSON)")
    return text


def _trait_names(named: str | list[str] | None) -> list[str]:
    return names_in(named if isinstance(named, str) else ",".join(named or ()))


def with_traits(text: str | None, names: list[str]) -> str | None:
    """The properties as results show them: as given, digit for digit, with the item's traits in them.

    Args:
        text: the stored properties; None for none.
    """
    members = json_text.members(text) if text else {}
    if members is None:
        return text
    stated = members.pop("traits", None)
    found = _trait_names(msgspec.json.decode(stated, type=str | list[str] | None)) if stated is not None else []
    if found == names:
        return text
    if names:
        members["traits"] = msgspec.Raw(msgspec.json.encode(names))
    return msgspec.json.encode(members).decode()


def refused_item(problem: ToolFailure) -> NewItem:
    """Sent to ``create_items.lua`` instead of an item that the current configuration rejects.

    So the refusal is recorded with the reply, and a retry gets the same answer under any configuration.
    """
    return NewItem(refused_id(problem), "", "", "", 0, 0, 0, "", "", "", False, "", "", "", "")


def new_item(spec: ItemSpec, item_id: str, parent: str, default_traits: str | None = None) -> NewItem:
    """A checked new item.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    if spec.id and spec.id.strip():
        raise invalid("id", "cannot be chosen; leave it out, or use operation update")
    text, stated = properties(spec.properties)
    names = _own_traits(spec, stated)
    if names is None:
        names = names_in(default_traits or "")
    return NewItem(
        item_id,
        parent,
        title(spec.title),
        summary(spec.summary),
        role(spec.role),
        priority(spec.priority),
        complexity(spec.complexity),
        tags(spec.tags),
        type_name(spec.type),
        label(spec.status_label),
        bool(given(spec.requires_verification)),
        long_text(spec.description, "description"),
        metadata(spec.metadata),
        text,
        traits(names, _traits_field(spec)),
        max_attempts=_or_unset(max_attempts(spec.max_attempts)),
        backoff=_or_unset(backoff(spec.retry_backoff_seconds)),
        requires=",".join(capabilities(given(spec.requires) or (), "requires")),
        resources=_resources(spec),
        due_times=_due_times(spec),
        further=_further(spec),
    )


def _resources(spec: ItemSpec) -> str | None:
    return demands(spec.resources) if isinstance(spec.resources, list) else None


def _due_times(spec: ItemSpec) -> due_times.Fields | Literal[""]:
    found = due_times.given(spec.not_before, spec.due_at, spec.recurs)
    return {name: value for name, value in found.items() if value is not False} or ""


def _further(spec: ItemSpec) -> dict[str, str] | bool:
    fields = {"bu": limits(given(spec.budget)), "st": "1" if given(spec.container) else ""}
    return {name: text for name, text in fields.items() if text} or False


def _or_unset(number: int | None) -> int:
    return -1 if number is None else number


def _own_traits(spec: ItemSpec, stated: list[str] | None) -> list[str] | None:
    """The traits given for an item, in ``traits`` or else in its properties; None: not given."""
    return names_in(spec.traits) if isinstance(spec.traits, str) else stated


def _traits_field(spec: ItemSpec) -> str:
    return "traits" if isinstance(spec.traits, str) or not spec.properties else "properties"


def _changed_properties(spec: ItemSpec, default_traits: str | None) -> dict[str, str | bool]:
    fields: dict[str, str | bool] = {}
    stated = None
    if spec.properties is not UNSET:
        text, stated = properties(spec.properties)
        fields["o"] = text or False
    names = _own_traits(spec, stated)
    if names is None and not_blank(default_traits):
        names = names_in(default_traits or "")
    if names is not None:
        fields["q"] = traits(names, _traits_field(spec)) or False
    return fields


def _changed_offer(spec: ItemSpec) -> dict[str, str | bool]:
    fields: dict[str, str | bool] = {}
    if spec.requires is not UNSET:
        fields["rq"] = ",".join(capabilities(spec.requires or (), "requires")) or False
    if spec.resources is not UNSET:
        own = _resources(spec)
        fields["rs"] = False if own is None else own
    if spec.container is not UNSET:
        fields["st"] = "1" if spec.container else False
    return fields


def shown(item: ShownItem) -> dict[str, str]:
    """Fields that somebody was shown, as items store them, '' for none.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    texts = {"t": item.title, "g": item.tags, "s": item.summary, "x": item.description}
    found = {name: text or "" for name, text in texts.items() if not isinstance(text, UnsetType)}
    if not_blank(item.priority):
        found["p"] = str(priority(item.priority))
    if not isinstance(item.retry_backoff_seconds, UnsetType):
        found["rb"] = "" if item.retry_backoff_seconds is None else str(item.retry_backoff_seconds)
    if not isinstance(item.budget, UnsetType):
        found["bu"] = "" if item.budget in (None, Budget()) else limits(item.budget)
    times = due_times.given(item.not_before, item.due_at, UNSET)
    return found | {name: "" if time is False else str(time) for name, time in times.items()}


def changes(spec: ItemSpec, default_traits: str | None = None) -> dict[str, str | int | bool]:
    """The fields of a partial update for ``update_items.lua``, without the parent.

    Null clears; a blank title, priority or summary changes nothing. Traits stay unless traits are given, in ``traits``
    ('' removes them) or in the properties.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field; ``role`` is never accepted.
    """
    if spec.role is not UNSET:
        raise invalid("role", "cannot be updated; use advance_item with a trigger")
    fields: dict[str, str | int | bool] = {}
    if not_blank(spec.title):
        fields["t"] = title(spec.title)
    if not_blank(spec.summary):
        fields["s"] = summary(spec.summary)
    if not_blank(spec.priority):
        fields["p"] = priority(spec.priority)
    if spec.complexity is not UNSET:
        fields["c"] = complexity(spec.complexity) or False
    if spec.description is not UNSET:
        fields["x"] = long_text(spec.description, "description") or False
    if spec.metadata is not UNSET:
        fields["m"] = metadata(spec.metadata) or False
    if spec.status_label is not UNSET:
        fields["lb"] = label(spec.status_label) or False
    if spec.tags is not UNSET:
        fields["g"] = tags(spec.tags) or False
    if spec.type is not UNSET:
        fields["y"] = type_name(spec.type) or False
    fields |= _changed_offer(spec)
    fields |= {} if spec.budget is UNSET else {"bu": limits(spec.budget) or False}
    fields |= _changed_properties(spec, default_traits)
    if spec.requires_verification is not UNSET and spec.requires_verification is not None:
        fields["rv"] = 1 if spec.requires_verification else False
    if spec.max_attempts is not UNSET:
        most = max_attempts(spec.max_attempts)
        fields["am"] = False if most is None else most
    fields |= due_times.given(spec.not_before, spec.due_at, spec.recurs)
    if spec.retry_backoff_seconds is not UNSET:
        seconds = backoff(spec.retry_backoff_seconds)
        fields["rb"] = False if seconds is None else seconds
    return fields
