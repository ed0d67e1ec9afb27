"""Masks secrets in settings."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgspec

from coordinator.settings.fields import bare, has_secret_path, is_argument, is_list, is_secret, is_struct, non_null

# These hide too much rather than too little: a URL is shown even if it is malformed because its password holds '/' or
# '@'. Log lines are long and hold other text, so they have narrower patterns (``coordinator.metrics.logs``).
_USER_INFO = re.compile(r"(://[^:@/\s]*):\S*@")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_HOST = re.compile(r"[a-z]+://[^/?#@\s]+(?=[/?#]|$)")
_NAMES = "pass(?:word|wd)?|token|secret|key|auth|sig|signature|credentials?|code|session"
_QUERY = re.compile(rf"([?&;](?:[\w.-]*[_.-])?(?:api|access)?(?:{_NAMES})=)[^&;#\s'\"]*", re.IGNORECASE)
_ANY_QUERY = re.compile(r"(?<=[?&;])([^=&;#\s]*=)?([^&;#\s]*)")
_OPTION = re.compile(r"(-[A-Za-z]|--[A-Za-z][\w-]*)(?:(=)(.*))?", re.DOTALL)


def redacted(text: str) -> str:
    """The text with passwords in URLs, and secrets in their queries, replaced: ``redis://user:***@host``."""
    return _QUERY.sub(r"\1***", _USER_INFO.sub(r"\1:***@", text))


def shown_value(value: Any, annotation: Any) -> Any:
    """A setting as plain data, with its secrets masked.

    Of a URL whose path is secret, scheme and host remain; of any other secret, references to environment variables
    (``${TOKEN}``), the name of an option, or a URL without its password and, with HTTP, what its query says.
    """
    kind = bare(non_null(bare(annotation)))
    if isinstance(value, str) and has_secret_path(annotation):
        match = _HOST.match(value)
        return f"{match[0]}/***" if match else "***"
    if isinstance(value, str):
        if not is_secret(annotation):
            return redacted(value)
        if is_argument(annotation) and (option := _OPTION.fullmatch(value)):
            return option[1] + (f"={_secret(option[3])}" if option[2] else "")
        return _secret_url(value) if "://" in value else _secret(value)
    if value is None:
        return None
    if is_struct(kind):
        types = typing.get_type_hints(kind, include_extras=True)
        stated = msgspec.to_builtins(value)
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
        return {key: shown_value(getattr(value, fields[key]), types[fields[key]]) for key in stated}
    if isinstance(value, dict) and typing.get_origin(kind) is dict:
        return {key: shown_value(entry, typing.get_args(kind)[1]) for key, entry in value.items()}
    if is_list(kind):
        return [shown_value(entry, typing.get_args(kind)[0]) for entry in value]
    return msgspec.to_builtins(value)


def _secret_url(text: str) -> str:
    if not text.lower().startswith("http"):
        return redacted(text)
    place, mark, query = redacted(text).partition("?")
    return place + _ANY_QUERY.sub(lambda one: (one[1] or "") + _secret(one[2]), mark + query)


def _secret(text: str) -> str:
    return " ".join(_REFERENCE.findall(text)) or ("***" if text else "")
