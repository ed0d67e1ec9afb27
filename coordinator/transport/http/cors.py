"""CORS: lets pages of the configured origins call this server (Fetch standard, 3.3).

A browser sends a preflight before such a call, without credentials, so it is answered before authentication. It also
hides an answer from the page unless the answer names the page's origin. So all answers do, errors too: a page must
learn why it was refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from coordinator.transport.http.replies import Header

_ORIGIN = b"access-control-allow-origin"
_VARY: Header = (b"vary", b"origin")
_EXPOSED: Header = (b"access-control-expose-headers", b"www-authenticate, x-request-id, retry-after, allow")
"""Headers that a page may read besides the type and length of an answer."""
_METHODS: Header = (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE")
"""DELETE, because clients of older revisions end sessions with it; the answer says that there are none."""
_SECONDS: Header = (b"access-control-max-age", b"7200")
"""How long a browser may cache a preflight; browsers cap it at two hours or less."""
_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, \t-]+")


class Cors:
    """The CORS headers for pages of the origins in ``allowed_origins``.

    Args:
        origins: ``scheme://name[:port]``, or ``null``.
    """

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._origins = {origin.lower().encode() for origin in origins}

    def headers(self, origin: bytes | None) -> tuple[Header, ...]:
        if not self._origins:
            return ()
        if origin is None or origin.strip().lower() not in self._origins:
            return (_VARY,)
        return (_VARY, (_ORIGIN, origin.strip()), _EXPOSED)

    def preflight(self, head: Mapping[bytes, bytes]) -> list[Header]:
        """The further headers of the answer to a preflight. A page of these origins may send any header."""
        headers = [_METHODS, _SECONDS]
        names = head.get(b"access-control-request-headers", b"")
        if _NAMES.fullmatch(names):
            headers.append((b"access-control-allow-headers", names))
        if head.get(b"access-control-request-private-network") == b"true":
            # A page on the internet calls into a private network (Private Network Access).
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers


def is_preflight(method: str, head: Mapping[bytes, bytes]) -> bool:
    return method == "OPTIONS" and b"origin" in head and b"access-control-request-method" in head
