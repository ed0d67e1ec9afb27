"""Values that are too large for the context: they are cut there, and kept whole beside it, to be read in pages."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from coordinator.steps.results import Cut, cut_of, fitting, within
from coordinator.toolsets.gateway.rules.schemas.inputs import too_deep

MAX_CONTEXT = 256 * 1024
"""The most bytes of an instance's context, as JSON."""
MAX_BEGINNING = 16 * 1024
"""The most bytes of the beginning of a value that is cut."""
MAX_KEPT = 4 * 1024 * 1024
"""The most bytes, as JSON, of a value that is kept whole."""
MOST_KEPT = 4
"""Values that are kept of one instance: the last ones. ``forget_instances.lua`` deletes as many."""
_MEDIA = ("image", "audio")
"""Content blocks of MCP that are no texts, by their ``type``."""

_encode = msgspec.json.Encoder().encode


class Whole(Struct, array_like=True, frozen=True):
    """A value that was cut, before it is kept."""

    bytes: int
    """As the cut value says."""
    text: str
    """Its JSON; images and sounds are replaced by where they are."""
    media: str
    """These, as the JSON of a list of content blocks; empty: there are none."""


Changes = dict[str, Whole | None]
"""What is to be kept by key of the context, the oldest first. None: nothing any more, because the key has a value that
is not cut."""


class KeptValue(Struct, array_like=True, frozen=True):
    key: str
    place: int
    """From 1 to ``MOST_KEPT``: what it is stored under."""
    bytes: int
    """As the cut value says."""
    text: int
    """The bytes of ``Whole.text``; ``Whole.media`` follows it."""
    media: int
    version: int
    """That of the instance from which on it has been kept."""


def cut_to_fit(context: Mapping[str, Any], written: Iterable[str]) -> tuple[dict[str, Any], Changes]:
    """Cuts the largest of the values that were just written until the context has room for them.

    A value is cut to its beginning. If all are and there is still no room, their beginnings are cut further.

    Args:
        context: has more than ``MAX_CONTEXT`` bytes.
        written: keys of the context.

    Returns:
        The context, and what is to be kept of the values that were cut. The context may still be too large: because of
        its other keys.
    """
    cuts: dict[str, Cut] = {}
    changes: Changes = {}
    size = len(_encode(context))
    texts = {key: _encode(context[key]) for key in written}
    largest_first = sorted(texts, key=lambda key: len(texts[key]), reverse=True)
    for key in largest_first:
        if size <= MAX_CONTEXT:
            break
        earlier_cut = cut_of(context[key])
        whole = _whole(earlier_cut, context[key], texts[key])
        cut = _beginning(earlier_cut, texts[key], whole)
        saved = len(texts[key]) - len(_encode(cut))
        if saved > 0 or earlier_cut is not None:
            cuts[key], size = cut, size - saved
        if saved > 0 and (earlier_cut is None or whole is not None):
            changes[key] = whole
    for key, cut in cuts.items():
        if size > MAX_CONTEXT:
            length = len(_encode(cut))
            cuts[key] = within(cut, length - (size - MAX_CONTEXT))
            size -= length - len(_encode(cuts[key]))
    return {**context, **msgspec.to_builtins(cuts)}, changes


def arranged(
    kept: Sequence[KeptValue], changes: Mapping[str, Whole | None], version: int
) -> tuple[list[KeptValue], list[tuple[int, str]]]:
    """What is kept of an instance from a version on: the last values, the oldest first.

    Args:
        kept: what was kept before.

    Returns:
        All that is kept; and the places that change, with what is to be stored there, empty: nothing.
    """
    fresh = [(key, whole) for key, whole in changes.items() if whole is not None][-MOST_KEPT:]
    stay = [value for value in kept if value.key not in changes]
    stay = stay[max(0, len(stay) + len(fresh) - MOST_KEPT) :]
    taken = {value.place for value in stay}
    free = (place for place in range(1, MOST_KEPT + 1) if place not in taken)
    stored = {place: whole.text + whole.media for place, (_, whole) in zip(free, fresh, strict=False)}
    made = [
        KeptValue(key, place, whole.bytes, len(whole.text.encode()), len(whole.media.encode()), version)
        for place, (key, whole) in zip(stored, fresh, strict=True)
    ]
    emptied = {value.place for value in kept} - taken - stored.keys()
    return [*stay, *made], [*stored.items(), *((place, "") for place in sorted(emptied))]


def page(data: bytes, room: int) -> tuple[int, str]:
    """The text of one page.

    Args:
        data: bytes of a text in UTF-8; the first and the last character may be cut.
        room: bytes that the text may have as JSON.

    Returns:
        How many bytes of a cut first character are left out; and as much of the rest as there is room for, at least one
        character.
    """
    begun = next((at for at, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
    text = data[begun:].decode(errors="ignore")
    return begun, fitting(text, room) or text[:1]


def _whole(cut: Cut | None, value: Any, text: bytes) -> Whole | None:
    """What is kept of a value; None: it is too large for that, or was cut before and is no longer than if cut here.

    Args:
        cut: the value, if it was cut before.
        text: the value as JSON.
    """
    size = len(text)
    if size > MAX_KEPT or (cut is not None and len(cut.beginning.encode()) <= MAX_BEGINNING):
        return None
    size = cut.bytes if cut is not None else size
    # Looked for before everything in a value is looked at.
    if not any(b'"%s"' % kind.encode() in text for kind in _MEDIA) or too_deep(value):
        return Whole(size, text.decode(), "")
    media: list[Any] = []
    elided = _encode(_without_media(value, media)).decode()
    return Whole(size, elided, _encode(media).decode() if media else "")


def _beginning(cut: Cut | None, text: bytes, whole: Whole | None) -> Cut:
    """A value cut to its beginning, which ends before the data of its first image. A cut one keeps its size."""
    if cut is not None:
        return msgspec.structs.replace(cut, beginning=_first(cut.beginning.encode()))
    beginning = _first(text)
    if whole is not None and whole.media:
        beginning = os.path.commonprefix((beginning, whole.text))  # noqa: RUF071 -- of any texts
    return Cut(True, len(text), beginning, whole is not None)


def _first(text: bytes) -> str:
    return text[:MAX_BEGINNING].decode(errors="ignore")


def _without_media(value: Any, blocks: list[Any]) -> Any:
    """A value whose images and sounds say where they are; these are added to ``blocks``."""
    if isinstance(value, list):
        return [_without_media(entry, blocks) for entry in value]
    if not isinstance(value, dict):
        return value
    data, mime = value.get("data"), value.get("mimeType")
    if value.get("type") in _MEDIA and isinstance(data, str) and isinstance(mime, str):
        blocks.append({"type": value["type"], "data": data, "mimeType": mime})
        return {**value, "data": f"(content[{len(blocks)}] of the answer with offset 0)"}
    return {key: _without_media(entry, blocks) for key, entry in value.items()}
