"""The cookies of the console.

Browsers send cookies to all ports of a host name. So the name of each has a digest of the fleet's id and of host and
port, by which those of several fleets and listeners do not overwrite each other; and what it holds is sealed for these
alone (``Cookie.audience``). Over HTTPS the prefix ``__Host-`` keeps pages of neighbouring hosts from setting them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2s
from urllib.parse import urlsplit

from coordinator.settings import Settings
from coordinator.settings.effective_auth import is_loopback
from coordinator.transport.http.replies import Header


class Cookie:
    """A cookie of one purpose.

    Args:
        settings: say where people reach the console. If they do not, HTTPS is assumed, but on loopback.
    """

    def __init__(self, purpose: str, settings: Settings) -> None:
        self._purpose = purpose
        parts = urlsplit(settings.console.public_url or settings.auth.resource)
        self._public = parts.netloc.lower()
        self._public_is_https = parts.scheme == "https"

    def over_https(self, head: Mapping[bytes, bytes]) -> bool:
        """Whether the visitor is to come over HTTPS: a proxy ends it, so the request itself does not say."""
        host = _host(head)
        return self._public_is_https if host == self._public else not _is_loopback(host)

    def read(self, head: Mapping[bytes, bytes], fleet: str) -> str:
        """Its value in the fleet with this id; empty: there is none."""
        wanted = self._name(head, fleet)
        for part in head.get(b"cookie", b"").decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name == wanted:
                return value
        return ""

    def set(self, head: Mapping[bytes, bytes], fleet: str, value: str, seconds: int) -> Header:
        """The header that sets it for so many seconds; 0 deletes it."""
        where = "Path=/; Secure" if self.over_https(head) else "Path=/console"
        text = f"{self._name(head, fleet)}={value}; {where}; HttpOnly; SameSite=Lax; Max-Age={seconds}"
        return (b"set-cookie", text.encode())

    def audience(self, head: Mapping[bytes, bytes], fleet: str) -> str:
        """What its value is good for: this fleet, where the visitor has reached it.

        That is the public address also if a proxy names another host, which may differ from process to process.
        """
        host = _host(head)
        return f"{fleet}:{self._public if self._public and not _is_loopback(host) else host}"

    def _name(self, head: Mapping[bytes, bytes], fleet: str) -> str:
        digest = blake2s(self.audience(head, fleet).encode(), digest_size=8).hexdigest()
        name = f"fleet-{self._purpose}-{digest}"
        return f"__Host-{name}" if self.over_https(head) else name


def _host(head: Mapping[bytes, bytes]) -> str:
    return head.get(b"host", b"").decode("latin-1").lower()


def _is_loopback(host: str) -> bool:
    return is_loopback(urlsplit(f"//{host}").hostname or "")
