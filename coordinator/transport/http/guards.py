"""Checks on a request's head and body that hold for every endpoint."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate

from coordinator.transport.http.replies import Header, Refusal, Refused

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ANY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104 (compared with, not bound to)
_REMEMBERED_HEADS = 256

_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>\d{1,5}))?\Z")
_ORIGIN = re.compile(r"https?://(?P<authority>[^/?#@\s]+)\Z")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}\Z")

# For ``nested_deeper``: brackets become +1 or -1 (as signed bytes), everything else is deleted.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))


class Gate:
    """Which ``Host`` and ``Origin`` headers are accepted (protection against DNS rebinding).

    Args:
        hosts: ``name``, ``name:port``, ``name:*`` or ``*``; empty: the loopback names and ``bound``.
        origins: allowed besides an origin that equals the request's host.
        bound: the address that the process listens on.
        own: the hosts of public addresses; always allowed.
    """

    def __init__(
        self,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        bound: str = "127.0.0.1",
        own: Collection[str] = (),
    ) -> None:
        allowed = list(hosts)
        if not allowed:
            allowed = [*_LOOPBACK]
            if bound not in _ANY_ADDRESS:
                allowed.append(f"[{bound}]" if ":" in bound and not bound.startswith("[") else bound)
        allowed += (f"[{address}]" if ":" in address else address for address in own)
        self._any = "*" in allowed
        self._hosts = {entry.lower().removesuffix(":*") for entry in allowed}
        self._origins = {origin.lower() for origin in origins}
        self.admitted: set[tuple[bytes | None, bytes | None]] = set()
        """Pairs of Host and Origin, byte for byte, that were accepted before."""

    def refusal(self, host: bytes | None, origin: bytes | None) -> Refusal | None:
        """Why the pair is rejected; None: it is accepted."""
        name = (host or b"").decode("latin-1").lower()
        match = _AUTHORITY.match(name)
        if match is None or not (self._any or name in self._hosts or match["name"] in self._hosts):
            shown = f"host '{name[:100]}'" if name else "a request without Host"
            return Refusal(421, f"{shown} is not served here; an operator can allow it with the setting allowed_hosts")
        if origin is not None:
            text = origin.decode("latin-1").lower()
            own = _ORIGIN.match(text)
            if text not in self._origins and (own is None or own["authority"] != name):
                shown = f"origin '{text[:100]}'"
                return Refusal(403, f"{shown} is not allowed; an operator can allow it in allowed_origins")
        if len(self.admitted) >= _REMEMBERED_HEADS:
            self.admitted.clear()
        self.admitted.add((host, origin))
        return None


def is_address(host: bytes | None) -> bool:
    """Whether a ``Host`` header is an IP address, with or without a port."""
    match = _AUTHORITY.match((host or b"").decode("latin-1").lower())
    try:
        return match is not None and bool(ipaddress.ip_address(match["name"].strip("[]")))
    except ValueError:
        return False


def head_of(headers: Iterable[Header], single: Collection[bytes]) -> dict[bytes, bytes]:
    """The headers by name; the first value of a repeated one.

    Raises:
        Refused: 400: one of ``single`` is repeated.
    """
    head: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in head and name in single:
            raise Refused(400, f"the header {name.decode()} is repeated")
        head.setdefault(name, value)
    return head


def head_size(headers: Iterable[Header]) -> int:
    """Size of the headers on the wire in bytes (``name: value`` and line end)."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def unread_coding(head: Mapping[bytes, bytes]) -> Refusal | None:
    """Why the body cannot be read: it is compressed or otherwise encoded; None: it is not encoded (chunked or not).

    The HTTP parser only joins chunks. It would pass on compressed content unchanged.
    """
    coding = head.get(b"transfer-encoding", b"chunked")
    if coding.lower() != b"chunked":
        coding_name = coding[:100].decode("latin-1")
        return Refusal(501, f"transfer-encoding '{coding_name}' is not supported; chunked is")
    coding = head.get(b"content-encoding", b"")
    if not {part.strip() for part in coding.lower().split(b",")} <= {b"", b"identity"}:
        coding_name = coding[:100].decode("latin-1")
        return Refusal(415, f"content-encoding '{coding_name}' is not supported; send the body as it is")
    return None


def check_get(path: str, method: str, more: str = "") -> None:
    """Rejects methods other than GET and HEAD.

    Args:
        more: a suggestion for the end of the message.

    Raises:
        Refused: 405.
    """
    if method not in ("GET", "HEAD"):
        raise Refused(405, f"{path} takes GET only{more}", [(b"allow", b"GET, HEAD")])


def without_padding(headers: Iterable[Header]) -> list[Header]:
    """The headers without blanks around their values (RFC 9110, 5.5); httptools keeps trailing ones."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def sane_request_id(value: bytes | None) -> str | None:
    """A client's request id, if it is safe in logs and answers."""
    return value.decode() if value is not None and _REQUEST_ID.match(value) else None


def nested_deeper(body: bytes, limit: int) -> bool:
    """Whether arrays and objects in this JSON text are nested in more than ``limit`` levels.

    Runs in linear time without a parser, because it protects the parser.
    """
    # Searching for a bracket takes a tenth of the time of counting.
    if body.count(b"{") + (body.count(b"[") if b"[" in body else 0) <= limit:
        return False
    outside_strings = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(outside_strings).translate(_STEPS, _NO_BRACKETS)
    if b"\x01" * (limit + 1) in brackets:
        return True
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > limit
