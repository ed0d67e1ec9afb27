"""``fleet token``: manages the bearer tokens of callers."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import aligned, print_as
from coordinator.identity.callers import token_edit
from coordinator.identity.callers.permissions import EVERYTHING, OPERATE, READ, vocabulary
from coordinator.identity.callers.token_file import (
    KEY_DIGITS,
    Kind,
    TokenEntry,
    TokenFileError,
    allowed,
    digest_of,
    new_token,
    read_tokens,
)
from coordinator.settings import LoadedSettings
from coordinator.settings.model import TOOLSETS
from coordinator.units import milliseconds

_PERMISSIONS = {*vocabulary(TOOLSETS), EVERYTHING, EVERYTHING + READ, OPERATE}
_NEVER = "never"
_KEY = re.compile(rf"[0-9a-f]{{{KEY_DIGITS},64}}\Z")

_File = Annotated[
    Path | None, Parameter(name="--file", help="The token file. Default: the setting auth.tokens.", metavar="FILE")
]

_Expires = Annotated[
    str, Parameter(help="When it ends: a time from now (12h, 90d, 1w12h), a UTC date or time, or 'never'.")
]


@with_settings(only=())
def create(
    loaded: LoadedSettings,
    id: Annotated[str, Parameter(help="Whose token it is: the actor id that ownership counts on.")],
    *,
    kind: Annotated[Kind, Parameter(help="What the actor is.")] = "subagent",
    role: Annotated[tuple[str, ...], Parameter(help="A role of the caller; may be given more than once.")] = (),
    permission: Annotated[
        tuple[str, ...],
        Parameter(
            help="What it permits: a toolset (items), the reading of one (items.read), '*', 'workflow', "
            "'workflow.admin', 'items.admin', 'operate' (which '*' does not include), or a tool or connection that "
            "steps may use; may be given more than once. Default: what the setting auth.default_permissions says."
        ),
    ] = (),
    project: Annotated[
        tuple[str, ...], Parameter(help="A project that it is for; may be given more than once. Default: all.")
    ] = (),
    expires: _Expires = "90d",
    note: Annotated[str, Parameter(help="Anything, for people who read the file.")] = "",
    file: _File = None,
) -> None:
    path = _path(loaded, file)
    token = new_token()
    now = _now()
    plain = {
        "id": id,
        "sha256": digest_of(token.encode()).hex(),
        "kind": kind,
        "roles": role,
        "permissions": permission or None,
        "projects": project or None,
        "expires": _moment(expires, now),
        "created": now,
        "note": note,
    }
    try:
        entry = msgspec.convert(plain, TokenEntry)
    except msgspec.ValidationError as error:
        raise CommandFailed(_explained(str(error)), Exit.USAGE) from None
    try:
        token_edit.add(path, entry)
    except TokenFileError as error:
        raise CommandFailed(str(error)) from None
    for name in permission:
        if name not in _PERMISSIONS:
            remark = f"fleet: note: {name!r} opens no toolset; it lets steps use a tool or a connection of that name"
            print(f"{remark} (toolsets: {', '.join(TOOLSETS)})", file=sys.stderr)
    _print_new(token, entry, path)


@with_settings(only=())
def replace(
    loaded: LoadedSettings,
    key: Annotated[str, Parameter(help="The key of the token to replace, as `fleet token list` shows it.")],
    *,
    expires: _Expires = "90d",
    file: _File = None,
) -> None:
    path = _path(loaded, file)
    token, now = new_token(), _now()
    ends = _moment(expires, now)

    def make(entries: tuple[TokenEntry, ...]) -> tuple[TokenEntry, TokenEntry]:
        old = next((entry for entry in entries if _is_key(key, entry)), None)
        newer = next((entry for entry in entries if key[:KEY_DIGITS] in entry.replaces), None)
        if newer is not None:
            raise CommandFailed(f"{key} was replaced already: replace {newer.key}, which has its place")
        if old is None:
            raise CommandFailed(f"no token in {path} has the key {key!r}; `fleet token list` shows them")
        fresh = msgspec.structs.replace(
            old, sha256=digest_of(token.encode()).hex(), expires=ends, created=now, replaces=(*old.replaces, old.key)
        )
        return old, fresh

    try:
        entry = token_edit.replace(path, make)
    except TokenFileError as error:
        raise CommandFailed(str(error)) from None
    _print_new(token, entry, path)
    remark = f"it has the place of {entry.replaces[-1]}, which is good until you revoke it"
    print(f"fleet: note: {remark}: fleet token revoke {entry.replaces[-1]}", file=sys.stderr)


@with_settings(only=())
def show(
    loaded: LoadedSettings,
    *,
    format: Annotated[Literal["table", "json"], Parameter(help="Shape of the output.")] = "table",
    file: _File = None,
) -> None:
    try:
        entries = read_tokens(_path(loaded, file))[0].tokens
    except TokenFileError as error:
        raise CommandFailed(str(error)) from None
    rows = [{"key": entry.key, **msgspec.to_builtins(entry)} for entry in entries]
    print_as(rows, _table(entries, _now()), format == "json")


@with_settings(only=())
def revoke(
    loaded: LoadedSettings,
    name: Annotated[str, Parameter(help="The key of one token, as `fleet token list` shows it, or an id.")],
    *,
    file: _File = None,
) -> None:
    path = _path(loaded, file)

    def doomed(entry: TokenEntry) -> bool:
        return entry.id == name or _is_key(name, entry)

    try:
        removed = token_edit.remove(path, doomed)
    except TokenFileError as error:
        raise CommandFailed(str(error)) from None
    if not removed:
        raise CommandFailed(f"no token in {path} has the key or the id {name!r}; `fleet token list` shows them")
    for entry in removed:
        print(f"revoked {entry.key} of {entry.id}")


def _is_key(text: str, entry: TokenEntry) -> bool:
    """Whether a text is the key of an entry, or more of its digest."""
    return _KEY.match(text) is not None and entry.sha256.startswith(text)


def _print_new(token: str, entry: TokenEntry, path: Path) -> None:
    until = entry.expires.isoformat().replace("+00:00", "Z") if entry.expires else _NEVER
    print(f"token {entry.key} of {entry.id}, until {until}, in {path}; it is not shown again:", file=sys.stderr)
    print(token)


def _path(loaded: LoadedSettings, file: Path | None) -> Path:
    if file is not None:
        return file
    stated = loaded.settings.auth.tokens
    if not stated:
        raise CommandFailed(
            "which token file? Give --file, or the setting auth.tokens (in the config file, or FLEET_AUTH_TOKENS)",
            Exit.USAGE,
        )
    return Path(stated)


def _moment(text: str, now: dt.datetime) -> dt.datetime | None:
    """When a token expires. Raises CommandFailed: the text does not say when, or a time that has passed."""
    if text == _NEVER:
        return None
    with contextlib.suppress(ValueError):
        ms = milliseconds(text)
        try:
            end = now + dt.timedelta(milliseconds=ms)
        except OverflowError:
            raise CommandFailed(f"--expires: {text} is too far away", Exit.USAGE) from None
        if not ms:
            raise CommandFailed(f"--expires: {text} expires at once", Exit.USAGE)
        return end
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(
            f"--expires must be a time from now such as 12h, 90d or 8w, a date or time such as 2027-01-31 or "
            f"2027-01-31T12:00:00Z, or {_NEVER}, not {text!r}",
            Exit.USAGE,
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    if moment <= now:
        raise CommandFailed(f"--expires: {text} has passed", Exit.USAGE)
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError:
        raise CommandFailed(f"--expires: {text} is too far away", Exit.USAGE) from None


_FLAGS = {"roles": "--role", "permissions": "--permission", "projects": "--project", "note": "--note", "id": "the id"}


def _explained(message: str) -> str:
    field = re.search(r"\$\.(\w+)", message)
    name = field[1] if field else ""
    return f"{_FLAGS.get(name, name)} must be {allowed(name)}"


def _table(entries: tuple[TokenEntry, ...], now: dt.datetime) -> Iterator[str]:
    rows = [("KEY", "ID", "KIND", "PERMISSIONS", "PROJECTS", "ROLES", "EXPIRES")]
    for entry in entries:
        until = entry.expires.strftime("%Y-%m-%d %H:%M%z").replace("+0000", "Z") if entry.expires else _NEVER
        if entry.expires and entry.expires <= now:
            until += " (expired)"
        permissions = "(default)" if entry.permissions is None else " ".join(entry.permissions) or "(none)"
        projects = " ".join(entry.projects or ("*",))
        if entry.replaces:
            until += f" (replaces {' '.join(entry.replaces)})"
        rows.append((entry.key, entry.id, entry.kind, permissions, projects, " ".join(entry.roles) or "-", until))
    return aligned(rows)


def _now() -> dt.datetime:
    """The current time, to the second."""
    return dt.datetime.now(dt.UTC).replace(microsecond=0)
