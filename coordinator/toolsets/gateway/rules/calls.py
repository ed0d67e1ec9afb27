"""Builds the call of an attempt from its configured executor: resolves paths and environment variables.

A text is replaced only if the whole of it is a path. Only the variables of a REST path are inserted into longer
texts, percent-encoded. A value inserted into ``args`` cannot become an option of the command. ``${NAME}`` stands for
an environment variable in the configuration only, never in callers' values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from coordinator.settings.sections.connections import Interpolator
from coordinator.settings.sections.gateway.executor import Executor
from coordinator.toolsets.gateway.rules.scope import Scope, is_path, present, resolve
from coordinator.toolsets.gateway.rules.task import Task

_encode = msgspec.json.Encoder().encode
_VARIABLE = re.compile(r"\{([^{}/]+)\}")
_END_OF_OPTIONS = "--"
_HEADER = re.compile(r"(?![\t ])[\t\x20-\x7e]*(?<![\t ])")
_MOST_KEY = 255
_SAFE = ("GET", "HEAD")
"""Methods that need no idempotency key."""

FillIn = Callable[[str], str]
"""Replaces ``${NAME}`` in a text that is no path."""


class Unresolved(Exception):
    """An argument has no value, or one that it must not have; the text is a sentence."""


class Noop(Struct, frozen=True):
    """Nothing is called."""

    result: dict[str, Any]


class CliCall(Struct, frozen=True, kw_only=True):
    connection: str = ""
    """Which names the command; empty: this call does."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_directory: str = ""
    strict: bool = True
    """Whether another exit code than 0 is a failure."""
    secrets: frozenset[str] = frozenset()
    """Environment values passed to the command; redacted when its output is quoted."""
    key: str = ""
    """The idempotency key; empty: none is sent."""


class RestCall(Struct, frozen=True, kw_only=True):
    """An HTTP request."""

    connection: str = ""
    method: str = "GET"
    path: str = ""
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = {}
    body: bytes | None = None
    secrets: frozenset[str] = frozenset()
    """Environment values in the request; redacted when its answer is quoted."""
    key: str = ""
    """The idempotency key; empty: none is sent."""


class McpCall(Struct, frozen=True, kw_only=True):
    """A call of a downstream server's tool."""

    connection: str
    tool: str
    arguments: dict[str, Any]
    key: str
    """The idempotency key; empty: that of the step."""
    key_argument: bool
    """Whether the tool also gets it as an argument."""


class BuiltinCall(Struct, frozen=True):
    """A call of one of the coordinator's own tools."""

    tool: str
    arguments: dict[str, Any]


class SubWorkflow(Struct, frozen=True):
    definition: str
    input: dict[str, Any]


class FlowCall(Struct, frozen=True):
    """The creation of a flow, or a look at it."""

    name: str
    """Empty: that of the workflow."""
    flow: dict[str, Any]
    input: dict[str, Any]


Call = Noop | CliCall | RestCall | McpCall | BuiltinCall | SubWorkflow | FlowCall


def call_of(executor: Executor, scope: Scope, key: str, environment: Mapping[str, str]) -> Call:
    """The call that an attempt makes.

    Args:
        key: the idempotency key, the same for all attempts and fallbacks of a hop.
        environment: the values of ``${NAME}`` in texts of the configuration. Texts from callers are not changed.

    Raises:
        Unresolved: an argument has no value.
    """
    filled = Interpolator(environment)

    def literal(text: str) -> str:
        try:
            return filled(text)
        except KeyError as missing:
            raise Unresolved(f"the environment variable {missing.args[0]} is not set") from None

    def arguments(stated: Mapping[str, Any] | None) -> dict[str, Any]:
        return dict(scope.arguments) if stated is None else present(stated, scope, literal)

    match executor.kind:
        case "cli":
            env = {name: resolve(value, scope, literal=literal) for name, value in executor.env.items()}
            return CliCall(
                connection=executor.connection or "",
                command=literal(executor.command),
                args=_arguments(executor.args, scope, literal),
                env={name: _text(value, f"env.{name}") for name, value in env.items() if value is not None},
                working_directory=literal(executor.working_directory),
                strict=executor.treat_non_zero_as_failure,
                secrets=frozenset(filled.secrets),
                key=key,
            )
        case "rest":
            body = executor.body
            return RestCall(
                connection=executor.connection or "",
                method=executor.method,
                path=_path(literal(executor.path), scope),
                query=_query(executor.query, scope, literal),
                headers=_headers(executor.headers, scope, literal),
                body=None if body is UNSET else _encode(resolve(body, scope, literal=literal)),
                secrets=frozenset(filled.secrets),
                key=key if executor.idempotency_key or executor.method not in _SAFE else "",
            )
        case "mcp":
            return McpCall(
                connection=executor.connection or "",
                tool=executor.tool,
                arguments=arguments(executor.map),
                key=key,
                key_argument=bool(executor.idempotency_key),
            )
        case "builtin":
            return BuiltinCall(executor.tool, arguments(executor.map))
        case "workflow":
            return SubWorkflow(executor.definition_id or "", arguments(executor.input))
        case "flow":
            return FlowCall(executor.name, executor.flow or {}, arguments(executor.input))
        case _:
            return Noop(arguments(executor.map))


def key_of(executor: Executor, task: Task) -> str:
    """The idempotency key of a hop; empty if its executor uses none.

    Args:
        executor: the executor of the hop. Its fallbacks send the same key.
    """
    if executor.idempotency_key is False:
        return ""
    facts = {"workflowId": task.workflow, "transition": task.transition, "correlationId": task.op}
    if isinstance(executor.idempotency_key, str):
        key = re.sub(r"\{(\w+)\}", lambda match: facts.get(match[1], match[0]), executor.idempotency_key)
    else:
        key = f"{task.workflow}.{task.transition or task.target}.{task.op}"
    if task.first_done and (task.phase == "enter" or task.kind != "start" or task.version > 1):
        # A chain may take the same transition twice, so later hops add their version.
        key += f".{task.version}"
    if task.phase == "enter":
        key += ".enter"
    return key[:_MOST_KEY]


def _arguments(stated: tuple[Any, ...], scope: Scope, literal: FillIn) -> tuple[str, ...]:
    words: list[str] = []
    for number, value in enumerate(stated):
        where = f"args.{number}"
        resolved = resolve(value, scope, literal=literal)
        if resolved is None:
            raise Unresolved(f"{where}: {value} has no value")
        text = _text(resolved, where)
        if is_path(value) and text.startswith("-") and _END_OF_OPTIONS not in stated[:number]:
            raise Unresolved(f"{where} would be an option: {text[:50]!r}; put '--' before it to allow that")
        words.append(text)
    return tuple(words)


def _path(template: str, scope: Scope) -> str:
    """Fills in the variables of a path, from the arguments, else from the context, else from the input."""

    def filled(match: re.Match[str]) -> str:
        name = match[1]
        for place in (scope.arguments, scope.context, scope.input):
            if place.get(name) is not None:
                text = _text(place[name], f"path.{name}")
                if text in ("", ".", ".."):
                    raise Unresolved(f"path.{name} must not be {text!r}")
                return quote(text, safe="")
        raise Unresolved(f"path.{name} has no value in arguments, context and input")

    return _VARIABLE.sub(filled, template)


def _query(stated: dict[str, Any], scope: Scope, literal: FillIn) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for key, value in stated.items():
        resolved = resolve(value, scope, literal=literal)
        several = resolved if isinstance(resolved, list) else [resolved]
        pairs += [(key, _text(part, f"query.{key}")) for part in several if part is not None]
    return tuple(pairs)


def _headers(stated: dict[str, str], scope: Scope, literal: FillIn) -> dict[str, str]:
    headers = {}
    for name, value in stated.items():
        resolved = resolve(value, scope, literal=literal)
        if resolved is None:
            continue
        text = _text(resolved, f"headers.{name}")
        if not _HEADER.fullmatch(text):
            raise Unresolved(f"headers.{name} must be one line of ASCII characters, without blanks around it")
        headers[name] = text
    return headers


def _text(value: Any, where: str) -> str:
    text = value if isinstance(value, str) else _encode(value).decode()
    if "\0" in text:
        raise Unresolved(f"{where} must not contain the character 0")
    return text
