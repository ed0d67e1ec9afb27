"""Masks secrets in settings."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgspec

from coordinator.settings.fields import bare, has_secret_path, is_list, is_secret, is_struct, non_null

# These hide too much rather than too little: a URL is shown even if it is malformed because its password holds '/' or
# '@'. Log lines are long and hold other text, so they have narrower patterns (``coordinator.metrics.logs``).
_USER_INFO = re.compile(r"(://[^:@/\s]*):\S*@")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_HOST = re.compile(r"[a-z]+://[^/?#@\s]+(?=[/?#]|$)")
_QUERY = re.compile(r"([?&](?:sentinel_)?(?:password|token|secret)=)[^&\s]*", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with passwords in URLs replaced: ``redis://user:***@host``."""
    return _QUERY.sub(r"\1***", _USER_INFO.sub(r"\1:***@", text))


def shown_value(value: Any, annotation: Any) -> Any:
    """A setting as plain data, with its secrets masked.

    Of a URL whose path is secret, scheme and host remain; of any other secret, references to environment variables
    (``${TOKEN}``), or a URL without its password.
    """
    kind = bare(non_null(bare(annotation)))
    if isinstance(value, str) and has_secret_path(annotation):
        match = _HOST.match(value)
        return f"{match[0]}/***" if match else "***"
    if isinstance(value, str):
        return redacted(value) if not is_secret(annotation) or "://" in value else _secret(value)
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


def _secret(text: str) -> str:
    return " ".join(_REFERENCE.findall(text)) or ("***" if text else "")
