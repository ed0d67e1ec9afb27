"""What a field of a contract says of itself to the readers of ``tools/list``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Meta


def doc(
    description: str,
    *,
    enum: Sequence[object] | None = None,
    published: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    **bounds: Any,
) -> Meta:
    """Describes a field.

    Args:
        enum: the values that it may have. Like ``published`` they only stand in the schema: the toolset's rules check
            them, because their refusals say more than a decoder's.
        published: further keywords of JSON Schema.
        extra: what ``canonical`` and ``actor`` define for arguments.
        bounds: those of ``msgspec.Meta``, which the decoder checks, too.
    """
    schema = {**({} if enum is None else {"enum": list(enum)}), **(published or {})}
    return Meta(description=description, extra_json_schema=schema or None, extra=extra, **bounds)
