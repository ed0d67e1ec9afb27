"""redis-py connections with TLS to nodes whose certificates do not name them as they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis.asyncio.connection
from redis.connection import SSLConnection


class NamedTls(SSLConnection):
    """For threads.

    Args:
        tls_name: the name to check certificates against; empty: that of the host.
        options: those of redis-py's connections.
    """

    def __init__(self, *, tls_name: str = "", **options: Any) -> None:
        self._tls_name = tls_name
        super().__init__(**options)  # type: ignore[no-untyped-call, unused-ignore]

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        host: str = self.host
        self.host = self._tls_name or host  # it takes the name from there
        try:
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[no-untyped-call, unused-ignore]
        finally:
            self.host = host


class NamedTlsAsync(redis.asyncio.connection.SSLConnection):
    """For event loops. Arguments as those of ``NamedTls``."""

    def __init__(self, *, tls_name: str = "", **options: Any) -> None:
        self._tls_name = tls_name
        super().__init__(**options)

    def _connection_arguments(self) -> Mapping[str, Any]:
        arguments = dict(super()._connection_arguments())
        return arguments | {"server_hostname": self._tls_name} if self._tls_name else arguments
