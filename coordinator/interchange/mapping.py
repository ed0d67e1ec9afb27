"""What statuses, priorities, types and tags of a source mean here: by its format, and by a file of one's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coordinator.interchange.files import read_regular, text_of_bytes
from coordinator.interchange.model import STATES, ImportProblem, ImportSource, State
from coordinator.interchange.yamltext import safe_yaml

_PRIORITIES = {
    **dict.fromkeys(("critical", "highest", "urgent", "blocker", "high", "p0", "p1"), "high"),
    **dict.fromkeys(("medium", "normal", "major", "none", "no priority", "", "p2"), "medium"),
    **dict.fromkeys(("low", "lowest", "minor", "trivial", "p3", "p4"), "low"),
}
_UNFIT = re.compile(r"[^a-z0-9._:/-]+")
_NAMED = 20
LONGEST_TAG, _LONGEST_TYPE = 100, 200


class Mapping_(Struct, forbid_unknown_fields=True):  # noqa: N801 (Mapping is taken)
    """A mapping file: names of the source, in any case, -> what they are here."""

    status: dict[str, str] = {}
    priority: dict[str, str] = {}
    type: dict[str, str] = {}
    tags: dict[str, str] = {}


def read_mapping(path: Path) -> Mapping_:
    """Reads a mapping file (YAML or JSON)."""
    try:
        mapping = msgspec.convert(safe_yaml(text_of_bytes(read_regular(path))), Mapping_)
    except OSError as error:
        raise ImportProblem(f"the mapping {path} cannot be read: {error}") from None
    except (ImportProblem, msgspec.ValidationError, ValueError) as error:
        raise ImportProblem(f"the mapping {path}: {error}") from None
    for name, state in mapping.status.items():
        if state not in STATES:
            raise ImportProblem(
                f"the mapping {path}: status {name!r} must be one of {', '.join(STATES)}, not {state!r}"
            )
    for name, priority in mapping.priority.items():
        if priority not in ("high", "medium", "low"):
            raise ImportProblem(f"the mapping {path}: priority {name!r} must be high, medium or low, not {priority!r}")
    return mapping


def apply_mapping(source: ImportSource, states: Mapping[str, State], own: Mapping_, unknown: State | None) -> None:
    """Sets the states of records, and makes priorities, types and tags those of items; drops skipped records.

    Args:
        states: what the statuses of the format mean, in lower case.
        unknown: what an unknown status means; None: it is a problem, because a guess might revive closed work.

    Raises:
        ImportProblem: statuses are unknown.
    """
    known: dict[str, Any] = {**states, **_lower(own.status)}
    priorities = {**_PRIORITIES, **_lower(own.priority)}
    types, tags = _lower(own.type), _lower(own.tags)
    missing: Counter[str] = Counter()
    strange: Counter[str] = Counter()
    for item in source.records:
        word = item.status.strip().lower()
        if word in _lower(own.status) or item.state is None:
            state = known.get(word) if word else item.state or known.get("", "queue")
            if state is None:
                missing[item.status] += 1
            item.state = state or unknown
        priority = item.priority.strip().lower()
        if priority not in priorities:
            strange[item.priority] += 1
        item.priority = priorities.get(priority, "medium")
        kind = types.get(item.type.lower(), item.type)
        item.type = kind[:_LONGEST_TYPE]
        if item.type != kind:
            source.leave_out(f"ends of types of more than {_LONGEST_TYPE} characters", f"{kind!r} of {item.title}")
        labels = [tags.get(name.lower(), name).strip() for name in item.tags]
        item.tags = list(dict.fromkeys(filter(None, map(tag, labels))))
        for label in labels:
            if label and not tag(label):
                source.leave_out("labels of which no tag is left", f"{label!r} of {item.title}")
            elif len(label) > LONGEST_TAG:
                source.leave_out(f"ends of labels of more than {LONGEST_TAG} characters", f"{label!r} of {item.title}")
    if missing and unknown is None:
        raise ImportProblem(
            f"it is not known what these statuses mean: {_counts(missing)}. Say it in a mapping (--map FILE, such as "
            f"'status: {{{next(iter(missing))}: queue}}' with one of {', '.join(STATES)}), or give --unknown queue"
        )
    if missing:
        source.remarks.append(f"taken for {unknown}: {_counts(missing)}")
    if strange:
        source.remarks.append(f"taken for priority medium: {_counts(strange)}")
    source.records = [record for record in source.records if record.state != "skip"]


def tag(text: str) -> str:
    """A label as a tag: lower case, other characters are dashes; empty: nothing of it is left."""
    return _UNFIT.sub("-", text.strip().lower()).strip("-_.:/")[:LONGEST_TAG].rstrip("-_.:/")


def _lower(words: Mapping[str, str]) -> dict[str, str]:
    return {name.strip().lower(): value for name, value in words.items()}


def _counts(words: Counter[str]) -> str:
    named = ", ".join(f"{word!r} ({count})" for word, count in words.most_common(_NAMED))
    return named + (f" and {len(words) - _NAMED} more" if len(words) > _NAMED else "")
