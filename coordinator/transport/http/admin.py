"""/metrics, /readyz and /healthz on a separate port, away from clients; and the console, if it is to be there.

Prometheus and Kubernetes send an IP address as ``Host``. DNS rebinding never does, so this port accepts every IP
address; names are checked as on the clients' port.
"""

from __future__ import annotations

import structlog

from coordinator.transport.http.guards import Gate, head_of, is_address, without_padding
from coordinator.transport.http.health import PROBES, Health
from coordinator.transport.http.mounted import Mounts
from coordinator.transport.http.replies import (
    INTERNAL_ERROR,
    ClientDisconnected,
    Message,
    Receive,
    Refused,
    Scope,
    Send,
    refuse,
    reply,
    rpc_error,
    with_headers,
)

_log = structlog.get_logger(__name__)


class AdminApp:
    """The ASGI application of the operators' port.

    Args:
        gate: which names are accepted.
    """

    def __init__(self, health: Health, gate: Gate) -> None:
        self._health = health
        self._gate = gate
        self.mounts = Mounts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        mounted = self.mounts.at(scope["path"])
        answer = with_headers(send, mounted.headers if mounted is not None else ())
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await answer(message)

        try:
            head = self._checked_head(scope)
            if mounted is not None:
                await mounted.serve(scope, receive, noting, head)
                return
            if scope["path"] not in PROBES:
                raise Refused(404, f"this port serves only {', '.join(sorted((*PROBES, *self.mounts)))}")
            await self._health.answer(scope["path"], scope["method"], noting)
        except ClientDisconnected:
            return
        except Refused as refused:
            await refuse(noting, refused)
        except Exception:
            _log.exception("a request failed")
            if started:
                raise
            await reply(noting, 500, rpc_error(INTERNAL_ERROR, "a defect of the coordinator stopped this request"))

    def _checked_head(self, scope: Scope) -> dict[bytes, bytes]:
        head = head_of(without_padding(scope["headers"]), (b"host", b"origin"))
        host = head.get(b"host")
        refusal = self._gate.refusal(host, head.get(b"origin"))
        if refusal is not None and not (refusal.status == 421 and b"origin" not in head and is_address(host)):
            raise Refused(*refusal)
        return head
