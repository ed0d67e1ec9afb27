"""The section ``webhooks``: receivers that are sent the change feed of a project."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct

from coordinator.settings.problems import Faults, KeyPath
from coordinator.settings.setting import setting

MOST_WEBHOOKS = 50
SECRET_PREFIX = "whsec_"  # noqa: S105 (what secrets begin with)
SECRET_RULE = f"{SECRET_PREFIX} and the base64 of 24 to 64 random bytes"
_BYTES = range(24, 65)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

WebhookName = Annotated[
    str,
    setting(
        pattern=r"^[a-z][a-z0-9_-]{0,49}\Z",
        allowed="a name of 1 to 50 lower-case letters, digits, '-' and '_', a letter first",
    ),
]
_Url = Annotated[
    str,
    setting(
        pattern=r"^https?://[^\s/@?#\\]+([/?][^\s@#\\]*)?\Z",
        allowed="an https:// URL without a user name and without '#'",
        secret=True,
        secret_path=True,
    ),
]
_Project = Annotated[str, setting(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z", allowed="the name of a project")]
_Variable = Annotated[
    str, setting(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?\Z", allowed="the name of an environment variable")
]
_Kinds = Annotated[tuple[str, ...], setting(one=True, allowed="a list of kinds, or groups of them such as item.*")]
_Roots = Annotated[tuple[str, ...], setting(one=True, allowed="a list of ids of items without a parent")]


class Webhook(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One entry of ``webhooks``.

    Raises:
        Faults: its fields contradict each other.
    """

    url: _Url
    project: _Project = "default"
    secret: Annotated[str, setting(secret=True)] = ""
    secret_env: _Variable = ""
    kinds: _Kinds = ()
    """Empty: those that listeners get who name none."""
    root: _Roots = ()
    """Empty: everything."""
    allow_private: bool = False

    def __post_init__(self) -> None:
        faults: list[tuple[KeyPath, str]] = []
        if bool(self.secret) == bool(self.secret_env):
            faults.append(((), "needs either secret or secret_env, and not both"))
        if self.secret and not is_secret(self.secret):
            faults.append((("secret",), f"must be {SECRET_RULE}"))
        if self.url.startswith("http:") and not self.allow_private:
            faults.append((("url",), "must begin with https://; http:// is for allow_private: true only"))
        if not _has_host(self.url):
            faults.append((("url",), "must be an https:// URL with a host, and a port from 1 to 65535 if it has one"))
        if faults:
            raise Faults(faults)


Webhooks = dict[WebhookName, Webhook]


def is_secret(text: str) -> bool:
    """Whether a text is a secret of Standard Webhooks."""
    coded = text.removeprefix(SECRET_PREFIX)
    if coded == text or not _BASE64.fullmatch(coded):
        return False
    try:
        return len(base64.b64decode(coded.rstrip("=") + "=" * (-len(coded.rstrip("=")) % 4))) in _BYTES
    except binascii.Error:
        return False


def webhook_problems(
    webhooks: Mapping[str, Webhook] | None, projects: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """What contradicts other settings: where, and a sentence about it."""
    if len(webhooks or ()) > MOST_WEBHOOKS:
        yield ("webhooks",), f"webhooks may have at most {MOST_WEBHOOKS} entries, not {len(webhooks or ())}"
    for name, one in (webhooks or {}).items():
        if projects and one.project not in projects:
            here = ("webhooks", name, "project")
            yield here, f"{'.'.join(here)}: '{one.project}' is not among the projects of the setting projects"


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
