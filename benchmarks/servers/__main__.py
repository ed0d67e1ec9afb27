"""Runs one of the servers: ``python -m benchmarks.servers KIND PORT REDIS_URL``. Several may share a port."""

from __future__ import annotations

import asyncio
import gc
import importlib
import socket
import sys
from typing import Any

import uvicorn
import uvloop

KINDS = {
    "bare-link": ("bare", "over_link"),
    "bare-pool": ("bare", "over_pool"),
    "sdk": ("sdk", "claiming"),
    "sdk-hint": ("sdk", "claiming_with_hint"),
    "fastmcp": ("fastmcp_noop", "app"),
}


async def _serve(kind: str, port: int, url: str) -> None:
    module, make = KINDS[kind]
    app: Any = await getattr(importlib.import_module(f"benchmarks.servers.{module}"), make)(url)
    config = uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="auto",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
    )
    gc.collect()
    gc.freeze()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", port))
        await uvicorn.Server(config).serve([listening])


def main() -> None:
    kind, port, url = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(kind, int(port), url))


if __name__ == "__main__":
    main()
