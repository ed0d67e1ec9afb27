"""The token file: static bearer tokens, and who they belong to.

It holds SHA-256 digests, so reading the file does not reveal a token. Tokens are long random texts, so they need
neither salt nor a slow hash. The file is YAML, or JSON if its name ends in ``.json``::

    tokens:
      - id: agent-1
        sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        kind: subagent
        permissions: [items]
        projects: [alpha]
        expires: 2027-01-01T00:00:00Z

Several entries may have the same id. One that replaces others has their keys, so that what was begun with them goes on:
``replaces: ["0a1b2c3d4e5f"]``.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from coordinator.settings.paths import unblocked
from coordinator.settings.problems import SettingsError
from coordinator.settings.sections.auth import Permission
from coordinator.settings.yaml_file import Lines, parse_yaml
from coordinator.toolsets.actor import MAX_ID

PREFIX = "fct_"
"""The prefix of our tokens, by which people and secret scanners recognize them."""
KEY_DIGITS = 12
"""How many digits of its digest identify an entry in messages."""

_MOST_BYTES = 32 * 1024 * 1024
_MOST_ENTRIES = 100_000
_SECRET_BYTES = 32
_NOTHING = hashlib.sha256(b"").hexdigest()
"""The digest of an empty text: what a script computes from an unset variable."""
_PLACE = re.compile(r" - at (?:key in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

_ALLOWED = {
    "tokens": "a list of entries",
    "entry": "a mapping with at least id and sha256",
    "id": f"1 to {MAX_ID} printable characters without blanks around them",
    "sha256": "64 lower-case hex digits as text, in quotes",
    "kind": "one of orchestrator, subagent, user, external",
    "roles": "a list of words",
    "permissions": "a list of permissions such as items, items.read or '*'",
    "projects": "a list of project names, or of '*'",
    "expires": "a time such as 2027-01-01T00:00:00Z",
    "created": "a time such as 2027-01-01T00:00:00Z",
    "note": "at most 500 characters of text",
    "replaces": f"a list of keys of entries, {KEY_DIGITS} lower-case hex digits each, in quotes",
}

_Word = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]{1,200}\Z")]
Project = Annotated[str, Meta(pattern=r"^(\*|[a-z0-9][a-z0-9_-]{0,62})\Z")]
Kind = Literal["orchestrator", "subagent", "user", "external"]


class TokenEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One token."""

    id: Annotated[str, Meta(pattern=rf"^(?!\s)[^\x00-\x1f\x7f\ud800-\udfff]{{1,{MAX_ID}}}(?<!\s)\Z")]
    """The id of its bearer, which counts as the actor's id."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """Digest of the token's bytes, in hex."""
    kind: Kind = "external"
    roles: tuple[_Word, ...] = ()
    permissions: tuple[Permission, ...] | None = None
    """None: ``auth.default_permissions``."""
    projects: tuple[Project, ...] | None = None
    """None, or if '*' is among them: all."""
    expires: Annotated[dt.datetime, Meta(tz=True)] | None = None
    created: Annotated[dt.datetime, Meta(tz=True)] | None = None
    note: Annotated[str, Meta(pattern=r"^[^\ud800-\udfff]{0,500}\Z")] = ""
    replaces: tuple[Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{KEY_DIGITS}}}\Z")], ...] = ()
    """Keys of entries in whose place this one is: what they have begun goes on with its rights."""

    @property
    def key(self) -> str:
        """The name of this entry in messages."""
        return self.sha256[:KEY_DIGITS]


class TokenFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    tokens: tuple[TokenEntry, ...] = ()


class TokenFileError(Exception):
    """The token file cannot be used; the message says why, and holds no value from the file."""


class Stamp(NamedTuple):
    """Facts about a file that change whenever it is written or replaced."""

    inode: int
    size: int
    modified: int
    changed: int


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(token: bytes) -> bytes:
    """The SHA-256 digest of a token, which is stored in its place."""
    return hashlib.sha256(token).digest()


def stamp_of(path: Path) -> Stamp | None:
    """The present stamp of the file; None if there is no such file or it cannot be examined."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def read_tokens(path: Path) -> tuple[TokenFile, Stamp]:
    """Reads and checks the whole file.

    Raises:
        TokenFileError: it cannot be read, others than its owner may write it, or it is wrong.
    """
    try:
        data, stamp = load(path)
    except OSError as error:
        advice = "; `fleet token create` makes it" if isinstance(error, FileNotFoundError) else ""
        raise TokenFileError(f"cannot read the token file {path}: {error.strerror}{advice}") from None
    return parse_tokens(data, path), stamp


def load(path: Path) -> tuple[bytes, Stamp]:
    """The bytes of the file.

    Raises:
        OSError: it cannot be read.
        TokenFileError: it is not a regular file, or others than its owner may write it.
    """
    with open(path, "rb", opener=unblocked) as file:
        status = os.fstat(file.fileno())
        _check_access(path, status)
        return file.read(_MOST_BYTES + 1), _stamp(status)


def parse_tokens(data: bytes, path: Path) -> TokenFile:
    """The content of a token file.

    Raises:
        TokenFileError: it is wrong; the message names the line, but no value.
    """
    if len(data) > _MOST_BYTES:
        raise TokenFileError(f"the token file {path} is larger than {_MOST_BYTES} bytes")
    plain, lines = _parsed(data, path)
    try:
        found = msgspec.convert(plain, TokenFile)
    except msgspec.ValidationError as error:
        raise TokenFileError(_located(str(error), path, lines)) from None
    if len(found.tokens) > _MOST_ENTRIES:
        raise TokenFileError(f"the token file {path} has more than {_MOST_ENTRIES} tokens")
    seen: dict[str, int] = {}
    replaced: dict[str, int] = {}
    for number, entry in enumerate(found.tokens):
        if entry.sha256 == _NOTHING:
            raise TokenFileError(
                _located("the digest is that of an empty text, which is not a token", path, lines, number)
            )
        if entry.sha256 in seen:
            where = _located(f"the digest of entry {seen[entry.sha256]} is repeated", path, lines, number)
            raise TokenFileError(where)
        seen[entry.sha256] = number
        for key in entry.replaces:
            if replaced.setdefault(key, number) != number:
                where = f"entry {replaced[key]} replaces one of the same keys"
                raise TokenFileError(_located(where, path, lines, number))
    return found


def is_json(path: Path) -> bool:
    return path.suffix == ".json"


def allowed(field: str) -> str:
    """What a field of an entry may be, in words."""
    return _ALLOWED[field]


def _parsed(data: bytes, path: Path) -> tuple[Any, Lines]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise TokenFileError(f"{path}: it is not UTF-8 text") from None
    if is_json(path):
        try:
            return msgspec.json.decode(text), {}
        except (msgspec.DecodeError, RecursionError) as error:
            raise TokenFileError(f"{path}: not valid JSON: {error}") from None
    try:
        plain, lines = parse_yaml(text, path)
    except SettingsError as error:
        raise TokenFileError(str(error)) from None
    entries = plain.get("tokens")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            entry.update({name: _time(entry[name]) for name in ("expires", "created") if name in entry})
    if entries is None:
        plain.pop("tokens", None)  # a list whose entries are all commented out
    return plain, lines


def _time(value: Any) -> Any:
    """A date or time that YAML has read, as a time with a zone; without one it is UTC."""
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return value


def _located(problem: str, path: Path, lines: Lines, entry: int | None = None) -> str:
    """The problem with its place in the file."""
    steps: tuple[str | int, ...] = () if entry is None else ("tokens", entry)
    if match := _PLACE.search(problem):
        problem = problem[: match.start()]
        steps = tuple(name or int(index) for name, index in _STEP.findall(match["path"]))
    field = next((step for step in reversed(steps) if isinstance(step, str)), "")
    if len(steps) == 2:
        field = "entry"
    if not problem.startswith("Object") and entry is None and field in _ALLOWED:
        problem = f"must be {_ALLOWED[field]}"
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    while steps and steps not in lines:
        steps = steps[:-1]
    at = f"{path}:{lines[steps]}" if steps in lines else str(path)
    problem = problem[:1].lower() + problem[1:]
    return f"{at}: {name}: {problem}" if name else f"{at}: {problem}"


def _check_access(path: Path, status: os.stat_result) -> None:
    """Rejects a file that others could put tokens into."""
    if not stat.S_ISREG(status.st_mode):
        raise TokenFileError(f"the token file {path} is not a regular file")
    if os.geteuid() not in (0, status.st_uid) and status.st_uid != 0:
        raise TokenFileError(f"the token file {path} belongs to another user, who could add tokens")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise TokenFileError(
            f"others than its owner may write the token file {path} (mode {stat.S_IMODE(status.st_mode):04o}): "
            f"chmod 600 {path}"
        )


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
