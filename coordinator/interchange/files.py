"""Reads the files of imports, in the encodings that programs write: UTF-8, and UTF-16 and UTF-32, as Windows PowerShell
does."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path
from typing import BinaryIO

from coordinator.interchange.model import ImportProblem

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading, but no pipe or the like: that could wait forever for a writer."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) and not os.path.samestat(status, os.stat(os.devnull)):
        file.close()
        raise ImportProblem(f"{path} is no regular file; what a program writes is read from stdin ('-')")
    return file


def read_regular(path: Path, most: int = -1) -> bytes:
    """The content of a file, or its first ``most`` bytes; raises as ``open_regular``."""
    with open_regular(path) as file:
        return file.read(most)


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
