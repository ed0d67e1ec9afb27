"""Texts in the encodings that programs write: UTF-8, and UTF-16 and UTF-32, as Windows PowerShell does."""

from __future__ import annotations

import codecs

from coordinator.interchange.model import ImportProblem

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(data: bytes) -> str:
    """The encoding of a text: by its byte order mark, else UTF-16 if one of the first two bytes is 0, else UTF-8."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if len(data) > 1 and (data[0] == 0) != (data[1] == 0):
        return "utf-16-be" if data[0] == 0 else "utf-16-le"
    return "utf-8"


def text_of_bytes(data: bytes) -> str:
    """A text, without its byte order mark. Raises ImportProblem: it is in another encoding, or no text."""
    name = encoding_of(data)
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        raise ImportProblem(
            f"the file is not text in {name.removesuffix('-sig').upper()}: byte {error.start}; save it in UTF-8"
        ) from None
