"""Executors, guards and reliability: what a transition or capability of the gateway executes, how, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from coordinator.settings.fields import camel, defaults_of
from coordinator.settings.problems import Faults, KeyPath
from coordinator.settings.sections.connections import ConnectionName
from coordinator.settings.setting import setting

Kind = Literal["noop", "cli", "rest", "mcp", "human", "workflow", "builtin", "flow"]
ErrorClass = Literal["timeout", "transient_error", "rate_limited", "connection_error", "permanent_error"]
GuardKind = Literal["permission", "role", "expr", "jsonpath", "evidence", "allOf", "all_of", "anyOf", "any_of", "not"]

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,127}"
ItemName = Annotated[
    str, setting(pattern=rf"^{_NAME}\Z", allowed="a name of 1 to 128 letters, digits, '_', '.' and '-', a letter first")
]
Secret = Annotated[str, setting(secret=True)]
Milliseconds = Annotated[int, setting(ge=1, le=31_536_000_000, allowed="milliseconds, at least 1")]
Attempts = Annotated[int, setting(ge=1, le=100)]
Delay = Annotated[int, setting(ge=0, le=86_400_000, allowed="milliseconds, at most a day")]
Count = Annotated[int, setting(ge=1, le=1000)]
RestPath = Annotated[
    str, setting(pattern=r"^(/[^\s\\?#]*)?\Z", allowed="a path that begins with '/', without '?', '#' and blanks")
]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of the structs of the section; fields with their defaults are not printed."""


class Required(Part, frozen=True, kw_only=True):
    """One entry of an evidence guard's ``requires``."""

    kind: str
    count: Count = 1


class Guard(Part, frozen=True, kw_only=True):
    """A condition for firing a transition.

    Raises:
        Faults: a missing field that its kind needs, or one that means nothing to it.
    """

    kind: GuardKind
    permission: str = ""
    role: str = ""
    expr: str = ""
    requires: tuple[Required | str, ...] = ()
    guards: tuple[Guard, ...] = ()
    guard: Guard | None = None

    def __post_init__(self) -> None:
        field = _GUARDS[self.kind]
        # A guard of several may have none.
        if faults := _wrong(self, (field,), {field} - {"guards"}):
            raise Faults(faults)


class Retry(Part, frozen=True, kw_only=True):
    """How often a failed attempt is repeated."""

    max_attempts: Attempts = 1
    backoff: Literal["none", "fixed", "exponential"] = "none"
    initial_delay_ms: Delay = 0
    max_delay_ms: Delay = 60_000
    retry_on: tuple[ErrorClass, ...] = ("timeout", "transient_error", "rate_limited")


class Fallback(Part, frozen=True, kw_only=True):
    """What is executed after the executor has failed for good."""

    strategy: Literal["first_success"] = "first_success"
    executors: Annotated[tuple[Executor, ...], setting(min_length=1, max_length=10)]


class Reliability(Part, frozen=True, kw_only=True):
    """Timeout, retries and fallback of an executor.

    Raises:
        Faults: the total timeout is none.
    """

    timeout_ms: Milliseconds | None = None
    """The longest time of one attempt."""
    max_total_timeout_ms: Milliseconds | None = None
    """With a tool of a server: each progress that it reports starts the time of the attempt anew, up to this in all."""
    retry: Retry = Retry()
    fallback: Fallback | None = None

    def __post_init__(self) -> None:
        if self.max_total_timeout_ms is not None and self.max_total_timeout_ms <= (self.timeout_ms or 0):
            raise Faults([(("maxTotalTimeoutMs",), f"must be more than timeoutMs, which is {self.timeout_ms}")])


class Executor(Part, frozen=True, kw_only=True):
    """What does the work: a kind with its fields, or the name of a capability whose executor is used.

    Raises:
        Faults: a missing field that its kind needs, or one that means nothing to it.
    """

    kind: Kind | None = None
    capability: ItemName | None = None
    connection: ConnectionName | None = None
    command: str = ""
    args: tuple[Any, ...] = ()
    env: dict[str, Secret] = {}
    working_directory: str = ""
    treat_non_zero_as_failure: bool = True
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    path: RestPath = ""
    query: dict[str, Any] = {}
    headers: dict[str, Secret] = {}
    body: Any | UnsetType = UNSET
    tool: str = ""
    map: dict[str, Any] | None = None
    queue: Annotated[str, setting(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")] = "default"
    distinct_from: Literal["requester"] | None = None
    definition_id: ItemName | None = None
    input: dict[str, Any] | None = None
    timeout_ms: Milliseconds | None = None
    flow: dict[str, Any] | None = None
    name: str = ""
    idempotency_key: bool | str | None = None

    def __post_init__(self) -> None:
        if (self.kind is None) == (self.capability is None):
            raise Faults([((), "needs either kind or capability")])
        faults = _wrong(self, _FIELDS.get(self.kind or "", ("capability",)), _NEEDS.get(self.kind or "", set()))
        if self.kind == "cli" and (self.connection is None) == (not self.command):
            faults.append(((), "kind cli needs either connection or command"))
        if faults:
            raise Faults(faults)


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "noop": ("map", "idempotency_key"),
    "cli": (
        "connection",
        "command",
        "args",
        "env",
        "working_directory",
        "treat_non_zero_as_failure",
        "idempotency_key",
    ),
    "rest": ("connection", "method", "path", "query", "headers", "body", "idempotency_key"),
    "mcp": ("connection", "tool", "map", "idempotency_key"),
    "human": ("queue", "distinct_from"),
    "workflow": ("definition_id", "input", "timeout_ms"),
    "builtin": ("tool", "map", "idempotency_key"),
    "flow": ("flow", "name", "input", "timeout_ms", "idempotency_key"),
}
_NEEDS: Mapping[str, set[str]] = {
    "rest": {"connection"},
    "mcp": {"connection", "tool"},
    "workflow": {"definition_id"},
    "builtin": {"tool"},
    "flow": {"flow"},
}
_GUARDS: Mapping[str, str] = {
    "permission": "permission",
    "role": "role",
    "expr": "expr",
    "jsonpath": "expr",
    "evidence": "requires",
    "allOf": "guards",
    "all_of": "guards",
    "anyOf": "guards",
    "any_of": "guards",
    "not": "guard",
}
"""The field of each kind of guard."""


def _wrong(part: Struct, taken: tuple[str, ...], needed: set[str]) -> list[tuple[KeyPath, str]]:
    """Fields that are given but mean nothing to the kind, and needed ones that are missing."""
    faults: list[tuple[KeyPath, str]] = []
    kind = getattr(part, "kind", None)
    what = f"kind {kind}" if kind is not None else "a reference to a capability"
    for field, default in zip(part.__struct_fields__, defaults_of(type(part)), strict=True):
        given = getattr(part, field) != default
        if given and field not in taken and field not in ("kind", "capability"):
            takes = ", ".join(map(camel, taken)) or "nothing else"
            faults.append(((camel(field),), f"means nothing to {what}, which takes {takes}"))
        elif not given and field in needed:
            faults.append(((), f"{what} needs {camel(field)}"))
    return faults
