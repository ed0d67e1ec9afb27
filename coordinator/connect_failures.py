"""Why a server cannot be connected to, in words without its address."""

from __future__ import annotations

import os
import socket
import ssl

RESOLVE = "check the host name, and the DNS that this machine asks"
_UNTRUSTED = "SSL_CERT_FILE can name the certificates of a private authority"


def cause_of(error: BaseException) -> tuple[str, str]:
    """The cause of a failed connection, in words without an address, and advice."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {found.verify_message.rstrip('.')}", _UNTRUSTED
        if isinstance(found, ssl.SSLError):
            return _tls_problem(found)
        if isinstance(found, socket.gaierror):
            return "its name does not resolve", RESOLVE
        if isinstance(found, ConnectionRefusedError):
            return "connection refused", "is the server up, and is host and port right as seen from this machine?"
        if isinstance(found, OSError) and found.errno is not None and found.errno > 0:
            return os.strerror(found.errno), ""  # its own text may contain the address
        found = found.__cause__ or found.__context__
    return "no connection", ""


def _tls_problem(error: ssl.SSLError) -> tuple[str, str]:
    if error.reason == "WRONG_VERSION_NUMBER":
        return "TLS failed: it does not speak TLS", "is it http:// instead of https://?"
    return "TLS failed" + (f": {error.reason.replace('_', ' ').lower()}" if error.reason else ""), ""
