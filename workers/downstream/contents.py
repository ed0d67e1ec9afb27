"""The content of results beside their structured content, without what only repeats that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mcp_types as types
import msgspec

from coordinator.settings.sections.connections import hidden, hidden_in

_MOST_FIELDS = 100
"""How many fields of structured content are compared with a block."""

_AS_THEY_ARE = ("type", "mimeType", "data", "blob", "audience", "theme")
"""Fields of blocks that are words of the protocol, or bytes in base64, in which a short secret may occur by chance."""

Block = dict[str, Any]


def content_of(result: types.CallToolResult) -> list[Block]:
    """The content blocks of a result as the protocol writes them in JSON."""
    return [plain(block) for block in result.content]


def plain(block: types.ContentBlock) -> Block:
    """A content block as the protocol writes it in JSON."""
    return block.model_dump(by_alias=True, mode="json", exclude_none=True)


def without_secrets(block: types.ContentBlock, secrets: Iterable[str]) -> types.ContentBlock:
    """A content block whose texts do not have these values."""

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: item if name in _AS_THEY_ARE else shown(item) for name, item in value.items()}
        if isinstance(value, list):
            return [shown(element) for element in value]
        return hidden(value, secrets) if isinstance(value, str) else value

    plain_block = shown(plain(block))
    if block.meta is not None:
        plain_block["_meta"] = hidden_in(block.meta, secrets)
    return type(block).model_validate(plain_block)


def with_content(structured: Any, content: list[Block], bare: str) -> Any:
    """Structured content, with the blocks that say more as ``content``, or ``contentBlocks`` if it has a ``content``.

    Args:
        bare: the key of structured content that is no object, if there are such blocks.
    """
    more = beside(structured, content)
    if not more:
        return structured
    whole = structured if isinstance(structured, dict) else {bare: structured}
    return {**whole, "contentBlocks" if "content" in whole else "content": more}


def beside(structured: Any, content: list[Block]) -> list[Block]:
    """The blocks that are not only another form of the structured content.

    Servers repeat it for clients that know only texts: as JSON, or a field of it as it is; libraries do so with each
    element of a list.
    """
    parts = [structured, *(list(structured.values())[:_MOST_FIELDS] if isinstance(structured, dict) else ())]
    for part in parts:
        if (
            isinstance(part, list)
            and len(part) == len(content)
            and all(map(_repeats, content, ([block] for block in part)))
        ):
            return []
    return [block for block in content if not _repeats(block, parts)]


def _repeats(block: Block, parts: list[Any]) -> bool:
    """Whether a block is one of these values in another form."""
    if block.get("type") != "text":
        return block in parts
    text = block["text"]
    if text in parts or not text.strip():
        return True
    try:
        return msgspec.json.decode(text) in parts
    except (msgspec.DecodeError, RecursionError):
        return False
