"""The ports that all front-ends of a fleet share.

Each front-end binds the port itself with SO_REUSEPORT, and the kernel balances the connections. (If they all accepted
from one inherited socket, one of them would take nearly all connections.) The same option would let a second fleet
share the port unnoticed. So the supervisor first binds the port without it as a test, and then holds the port, bound
but not listening, until it exits.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import msgspec

from coordinator.processes.errors import ProcessProblem
from coordinator.settings import Settings

BACKLOG = 2048


def reserve(host: str, port: int, setting: str = "port") -> socket.socket:
    """Reserves the port, so that other programs cannot bind it but front-ends can; port 0 takes a free one.

    Args:
        setting: the setting with the port, for messages.

    Raises:
        ProcessProblem: the port is in use, or the address is not one of this host.
    """
    # SO_REUSEADDR, because connections of an earlier fleet may linger for a minute; only a listener is a problem.
    with _bound(setting, host, port, socket.SO_REUSEADDR) as probe:
        port = probe.getsockname()[1]
    try:
        # Without SO_REUSEADDR, so that another reservation is refused even while no front-end listens.
        return _bound(setting, host, port, socket.SO_REUSEPORT)
    except ProcessProblem:
        # The lingering connections are those of a server without SO_REUSEPORT.
        return _bound(setting, host, port, socket.SO_REUSEPORT, socket.SO_REUSEADDR)


@contextlib.contextmanager
def reserved(settings: Settings) -> Iterator[Settings]:
    """Reserves the ports of a fleet while the block runs.

    Yields:
        The settings with the port in use.

    Raises:
        ProcessProblem: as ``reserve``.
    """
    with contextlib.ExitStack() as held:
        port = held.enter_context(reserve(settings.host, settings.port)).getsockname()[1]
        if settings.admin_port:
            held.enter_context(reserve(settings.admin_host or settings.host, settings.admin_port, "admin_port"))
        yield msgspec.structs.replace(settings, port=port)


def listening(host: str, port: int, setting: str = "port") -> socket.socket:
    """A front-end's own socket on the shared port.

    Raises:
        ProcessProblem: as ``reserve``.
    """
    sock = _bound(setting, host, port, socket.SO_REUSEPORT, socket.SO_REUSEADDR)
    sock.setblocking(False)
    return sock


def _bound(setting: str, host: str, port: int, *options: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ProcessProblem(f"the host {host!r} cannot be resolved: {error.strerror}", "usage") from None
    except UnicodeError:
        raise ProcessProblem(f"the host {host!r} cannot be resolved: it is not a host name", "usage") from None
    family, kind, protocol, _, address = addresses[0]
    sock = socket.socket(family, kind, protocol)
    try:
        for option in options:
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise ProcessProblem(
                f"port {port} on {host} is in use by another program: stop it, or choose another port "
                f"(--{setting.replace('_', '-')} or FLEET_{setting.upper()})",
                "port_busy",
            ) from None
        if error.errno == errno.EACCES:
            raise ProcessProblem(f"port {port} on {host} needs privileges: choose one above 1023", "usage") from None
        raise ProcessProblem(f"cannot listen on {host}: {error.strerror}", "usage") from None
    return sock
