"""Keeps pages of other sites from using the console in a visitor's name (CSRF).

A browser says which site a request comes from, in ``Sec-Fetch-Site``; an old one says it of changes only, in
``Origin``. So there are no tokens to keep or lose. Cookies are ``SameSite=Lax`` besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from coordinator.errors import ToolFailure
from coordinator.transport.http.media import is_json

MARK = b"fleet-console"
"""The header that changes carry, which no form and no page of another site can send."""
_FOREIGN = "pages of other sites cannot use the console"


def check_site(method: str, head: Mapping[bytes, bytes]) -> None:
    """Refuses what a page of another site asks for; it may only lead here, by a link."""
    site = head.get(b"sec-fetch-site")
    if method not in ("GET", "HEAD"):
        if site is None:
            same = _is_own(head.get(b"origin", b""), head.get(b"host", b""))
        else:
            same = site == b"same-origin"
        if not same:
            raise ToolFailure("permission_denied", _FOREIGN)
        return
    leads = (
        method == "GET" and head.get(b"sec-fetch-mode") == b"navigate" and head.get(b"sec-fetch-dest") == b"document"
    )
    if site not in (None, b"same-origin", b"none") and not leads:
        raise ToolFailure("permission_denied", _FOREIGN)


def check_write(head: Mapping[bytes, bytes]) -> None:
    """Refuses a change, let through by ``check_site``, that no script of the console asks for."""
    if head.get(MARK) != b"1" or not is_json(head.get(b"content-type")):
        raise ToolFailure("permission_denied", "changes need the header Fleet-Console: 1, and JSON")


def _is_own(origin: bytes, host: bytes) -> bool:
    try:
        parts = urlsplit(origin.decode("latin-1"))
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == host.decode("latin-1").lower()
