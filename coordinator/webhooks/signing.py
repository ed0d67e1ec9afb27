"""The secrets that sign messages.

The settings hold one secret for each webhook. After a rotation the new one is in Redis, sealed with that of the
settings, so Redis alone gives it to nobody. The secrets before it sign along for ``OVERLAP_SECONDS``; they are sealed
with the new one. So the new secret can be put into the settings at any time after a rotation: earlier ones then still
sign to the end of their time. Any other secret in the settings replaces all of these at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from standardwebhooks import Webhook as Signer

from coordinator.settings.sections.webhooks import SECRET_PREFIX

OVERLAP_SECONDS = 24 * 3600
"""How long an earlier secret signs along."""
MOST_EARLIER = 3
"""Earlier secrets that sign along; further ones no longer do."""
_SECRET_BYTES = 32
_PURPOSE = b"fleet-coordinator:webhook secret"


class Earlier(NamedTuple):
    """A secret that was replaced."""

    secret: str
    until: int
    """When it signs no longer, in ms by the clock of Redis."""


class Secrets(NamedTuple):
    """The secrets that sign now. The text form hides them."""

    present: str
    earlier: tuple[Earlier, ...]

    def __repr__(self) -> str:
        return f"Secrets(earlier={len(self.earlier)})"

    @property
    def all(self) -> list[str]:
        """The present one first."""
        return [self.present, *(secret.secret for secret in self.earlier)]


class Rotation(NamedTuple):
    """A new secret, and what Redis keeps of it. The text form hides it."""

    secret: str
    sealed: str
    earlier: str

    def __repr__(self) -> str:
        return "Rotation()"


def in_force(secret: str, sealed: str, earlier: str, now: int) -> Secrets:
    """The secrets that sign at ``now``.

    Args:
        secret: that of the settings.
        sealed, earlier: as Redis has them.
    """
    present = _open(secret, sealed) or secret
    opened = _open(present, earlier)
    held = msgspec.json.decode(opened, type=list[Earlier]) if opened else []
    return Secrets(present, tuple(one for one in held if one.until > now))


def rotated(secret: str, held: Secrets, now: int) -> Rotation:
    """A new secret in place of the present one."""
    fresh = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    earlier = [Earlier(held.present, now + OVERLAP_SECONDS * 1000), *held.earlier][:MOST_EARLIER]
    return Rotation(fresh, _seal(secret, fresh), _seal(fresh, msgspec.json.encode(earlier).decode()))


def headers(id: str, body: bytes, signing: Iterable[str], at: datetime) -> Mapping[str, str]:
    """The headers of a message.

    Args:
        signing: secrets, each of which signs it.
        at: when it is sent.
    """
    signatures = [Signer(secret).sign(id, at.astimezone(UTC), body.decode()) for secret in signing]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def _seal(secret: str, text: str) -> str:
    return _box(secret).encrypt(text.encode()).decode()


def _open(secret: str, sealed: str) -> str:
    """The text that was sealed with a secret; empty: it was sealed with another one, or nothing was."""
    if not sealed:
        return ""
    try:
        return _box(secret).decrypt(sealed.encode()).decode()
    except InvalidToken:
        return ""


def _box(secret: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)))
