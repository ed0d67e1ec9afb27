"""Masks secrets in what a command writes, and in what the runner reports of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

MASK = b"[masked]"
_SHORTEST = 8
"""Shorter values are not masked: they would be found in ordinary words."""
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth|cookie", re.IGNORECASE)
_NO_SECRET_NAME = re.compile(r"(_FILE|_PATH|_DIR|_URL|_SOCK)$|^SSH_AUTH_SOCK$", re.IGNORECASE)
_SHAPES = (
    rb"\bsk-[A-Za-z0-9_-]{20,}",
    rb"\bgh[pousr]_[A-Za-z0-9]{30,}",
    rb"\bgithub_pat_[A-Za-z0-9_]{30,}",
    rb"\bglpat-[A-Za-z0-9_-]{20,}",
    rb"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    rb"\bAKIA[0-9A-Z]{16}\b",
    rb"\bAIza[A-Za-z0-9_-]{35}\b",
    rb"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,}=*",
)
"""Credentials of common providers, which a command may have found by itself."""
_SIGNS = (b"sk-", b"github_pat_", b"glpat-", b"xox", b"AKIA", b"AIza", b"earer ", *(b"gh%c_" % one for one in b"pousr"))
"""One of these is in each of them. Looking for the patterns in all output would take most of the runner's time."""


class Masker:
    """Replaces secrets, each line of them by itself, also as JSON writes it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}
        forms = {form for line in lines if len(line) >= _SHORTEST for form in (line, json.dumps(line)[1:-1])}
        # The longest first: a secret may be the beginning of another.
        literal = [form.encode(errors="replace") for form in sorted(forms, key=len, reverse=True)]
        self._pattern = re.compile(b"|".join((*map(re.escape, literal), *_SHAPES)))
        self._signs = (*literal, *_SIGNS)

    def __call__(self, text: bytes) -> bytes:
        return self._pattern.sub(MASK, text) if any(sign in text for sign in self._signs) else text

    def text(self, text: str) -> str:
        """The same for text."""
        return self(text.encode(errors="replace")).decode(errors="replace")


def secrets_of(environment: Mapping[str, str]) -> set[str]:
    """The values in an environment that are secrets, by the names of the variables; and passwords in URLs."""
    secrets = {
        value for name, value in environment.items() if _SECRET_NAME.search(name) and not _NO_SECRET_NAME.search(name)
    }
    for value in environment.values():
        if "://" in value:
            try:
                secrets.add(urlsplit(value).password or "")
            except ValueError:  # no URL, so it has no password
                continue
    return secrets - {""}
