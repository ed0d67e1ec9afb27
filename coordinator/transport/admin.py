"""/metrics, /readyz and /healthz on a port of their own, away from clients.

Prometheus and Kubernetes ask by address, which is never what an attack by DNS rebinding has
in ``Host``; so here any IP address is let in, and names as everywhere.
"""

from __future__ import annotations

import ipaddress

from coordinator.transport.detour import PROBES, probe, refuse
from coordinator.transport.guards import Gate, without_padding
from coordinator.transport.health import Health
from coordinator.transport.replies import Receive, Refused, Scope, Send


class AdminApp:
    """The ASGI application of the operators' port.

    Args:
        gate: which names are let in.
    """

    def __init__(self, health: Health, gate: Gate) -> None:
        self._health = health
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        try:
            self._check(scope)
            await probe(self._health, scope["path"], scope["method"], send)
        except Refused as refused:
            await refuse(send, refused)

    def _check(self, scope: Scope) -> None:
        head = dict(without_padding(scope["headers"]))
        if len([name for name, _ in scope["headers"] if name in (b"host", b"origin")]) > len(
            head.keys() & {b"host", b"origin"}
        ):
            raise Refused(400, "a header is there more than once")
        host = head.get(b"host")
        refusal = self._gate.refusal(host, head.get(b"origin"))
        if refusal is not None and not (refusal[0] == 421 and b"origin" not in head and _is_address(host)):
            raise Refused(*refusal)
        if scope["path"] not in PROBES:
            raise Refused(404, f"nothing is served here but {', '.join(sorted(PROBES))}")


def _is_address(host: bytes | None) -> bool:
    """Whether a ``Host`` header is an IP address, with or without a port."""
    text = (host or b"").decode("latin-1")
    name = text.partition("]")[0].removeprefix("[") if text.startswith("[") else text.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
