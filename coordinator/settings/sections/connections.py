"""The section ``connections``: the servers and programs that workflow steps and the gateway use.

``${NAME}`` in a text stands for an environment variable of the process that connects. So tokens are neither in the file
nor in what shows the settings.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from coordinator.settings.fields import camel, defaults_of
from coordinator.settings.paths import Locate
from coordinator.settings.problems import Faults, KeyPath
from coordinator.settings.setting import setting

RESERVED = ("items", "worker", "sessions", "navigator", "flows", "gateway", "workflow")
"""Names that no connection may have, because the coordinator's own tools have them or begin with them."""

ConnectionName = Annotated[
    str,
    setting(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,49}\Z",
        allowed="a name of 1 to 50 letters, digits, '-' and '_', a letter first",
    ),
]
_Url = Annotated[str, setting(pattern=r"^(https?://[^\s]+)?\Z", allowed="an http:// or https:// URL", secret=True)]
_Secret = Annotated[str, setting(secret=True)]
_Host = Annotated[str, setting(pattern=r"^[A-Za-z0-9._:\[\]-]+\Z", allowed="a host name or an address")]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "mcp": (
        *("command", "args", "env", "workingDirectory", "url", "headers", "startSeconds"),
        *("state", "stateIdleSeconds", "stateMost", "stateParallel"),
    ),
    "cli": ("command", "workingDirectory", "env"),
    "rest": ("baseUrl", "headers", "allowHosts", "allowPrivate"),
}
"""The fields of each kind, besides ``kind``."""

_SHORTEST_SECRET = 4
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable."""


class Connection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One entry of ``connections``.

    Raises:
        Faults: a field that its kind does not have, or a missing one that it needs.
    """

    kind: Literal["mcp", "cli", "rest"]
    command: str = ""
    """mcp: starts a server that speaks MCP on stdin and stdout; cli: the program."""
    args: tuple[Annotated[str, setting(secret=True, argument=True)], ...] = ()
    env: dict[str, _Secret] = {}
    working_directory: str = ""
    url: _Url = ""
    """mcp: Streamable HTTP; takes precedence over ``command``."""
    headers: dict[str, _Secret] = {}
    base_url: _Url = ""
    allow_hosts: tuple[_Host, ...] = ()
    """rest: hosts that requests may go to, for a baseUrl that comes from the environment; empty: any."""
    allow_private: bool = False
    """rest: whether requests may go to addresses that are not public."""
    start_seconds: Annotated[float, setting(gt=0, le=600)] = 30.0
    """mcp: how long connecting, or starting the server, may take."""
    state: Literal["none", "shared", "session"] = "none"
    """mcp: what the server remembers from call to call is nobody's (any worker calls a server of its own), that of all
    callers of a project, or that of one workflow or caller."""
    state_idle_seconds: Annotated[float, setting(gt=0, le=604_800)] = 900.0
    """mcp: how long a state is kept without a call."""
    state_most: Annotated[int, setting(ge=1, le=256)] = 16
    """mcp: most states at a time, in the whole fleet."""
    state_parallel: bool = False
    """mcp: whether calls that use the same state may be made at the same time."""

    def __post_init__(self) -> None:
        faults: list[tuple[KeyPath, str]] = []
        taken = _FIELDS[self.kind]
        for field, default in zip(self.__struct_fields__, defaults_of(type(self)), strict=True):
            name = camel(field)
            if field == "kind" or getattr(self, field) == default:
                continue
            if name not in taken:
                faults.append(((name,), f"means nothing to kind {self.kind}, which takes {', '.join(taken)}"))
            elif name.startswith("state") and self.state == "none":
                faults.append(((name,), "means nothing without state: shared or session"))
        if self.kind == "mcp" and not self.command and not self.url:
            faults.append(((), "kind mcp needs command (a server on stdin and stdout) or url (Streamable HTTP)"))
        if self.kind == "cli" and not self.command:
            faults.append(((), "kind cli needs command"))
        if self.kind == "rest" and not self.base_url:
            faults.append(((), "kind rest needs baseUrl"))
        if faults:
            raise Faults(faults)


Connections = dict[ConnectionName, Connection]


def located_connections(section: Connections | None, locate: Locate) -> Connections | None:
    """The section with absolute working directories, but for those that begin with a variable. Raises SettingsError."""

    def whole(one: Connection) -> Connection:
        written = one.working_directory
        if not written or written.startswith("${"):
            return one
        return msgspec.structs.replace(one, working_directory=locate(written))

    return None if section is None else {name: whole(one) for name, one in section.items()}


def connection_problems(connections: Mapping[str, Connection] | None) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with the names of connections: where, and a sentence about it."""
    for name in connections or ():
        if name in RESERVED:
            yield ("connections", name), f"connections.{name}: the coordinator's own tools begin with {name!r}"


def interpolated(text: str, environment: Mapping[str, str]) -> str:
    """The text with ``${NAME}`` replaced.

    Raises:
        KeyError: a variable that is not set; holds its name.
    """
    return VARIABLE.sub(lambda match: environment[match[1]], text)


def unset_variables(connection: Connection, environment: Mapping[str, str]) -> list[str]:
    """The environment variables that a connection refers to and that are not set."""
    stated = msgspec.json.encode(connection).decode()
    return sorted({match[1] for match in VARIABLE.finditer(stated)} - environment.keys())


class Interpolator:
    """Replaces ``${NAME}`` and remembers the values, because each of them may be a secret, unless it is where a program
    is to be found.

    Args:
        environment: the values by name.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.secrets: set[str] = set()

    def __call__(self, text: str) -> str:
        """The text with ``${NAME}`` replaced; raises as ``interpolated``."""
        self.secrets.update(self._environment.get(match[1], "") for match in VARIABLE.finditer(text))
        return self.place(text)

    def place(self, text: str) -> str:
        """The same for a program or a directory, which are no secrets: answers may have to name them."""
        return interpolated(text, self._environment)


def hidden_in(value: Any, secrets: Iterable[str]) -> Any:
    """The same for all texts in plain JSON data, names included."""
    forms = _forms(frozenset(secrets))
    if not forms:
        return value
    with contextlib.suppress(TypeError, ValueError, OverflowError, RecursionError):
        # Most data has no secret, and looking at its JSON is ten times as fast as at each of its texts.
        data = msgspec.json.encode(value)
        if not any(msgspec.json.encode(form)[1:-1] in data for form in forms):
            return value
    try:
        return _hidden_in(value, forms)
    except RecursionError:
        return "***"


def hidden(text: str, secrets: Iterable[str], cut: bool = False) -> str:
    """The output of a program that knows secrets, with each secret replaced by ``***``, except very short ones.

    Args:
        cut: whether the text goes on; then its end is hidden where a secret may begin.
    """
    forms = _forms(frozenset(secrets))
    text = _without(text, forms)
    if cut:
        begun = max((_begun(text, form) for form in forms), default=0)
        text = text[: len(text) - begun] + "***" if begun else text
    return text


@lru_cache(maxsize=64)
def _forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """How secrets may be written: each line as it is, in a JSON text, and in a URL. The longest first."""
    lines = {line for secret in secrets for line in secret.splitlines() if len(line) >= _SHORTEST_SECRET}
    in_json = {json.dumps(line, ensure_ascii=escaped)[1:-1] for line in lines for escaped in (True, False)}
    slashes = {text.replace("/", "\\/") for text in in_json}
    return tuple(sorted(lines | in_json | slashes | {quote(line, safe="") for line in lines}, key=len, reverse=True))


def _hidden_in(value: Any, forms: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _without(value, forms)
    if isinstance(value, dict):
        return {_without(name, forms): _hidden_in(one, forms) for name, one in value.items()}
    return [_hidden_in(one, forms) for one in value] if isinstance(value, list) else value


def _without(text: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        text = text.replace(form, "***")
    return text


def _begun(text: str, form: str) -> int:
    """How many characters at the end of a text are the beginning of a secret."""
    return next((n for n in range(len(form) - 1, _SHORTEST_SECRET - 1, -1) if text.endswith(form[:n])), 0)
