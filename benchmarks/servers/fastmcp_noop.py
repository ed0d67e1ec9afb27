"""FastMCP with a no-op tool."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP


async def app(_url: str) -> Any:
    """The server's HTTP application, stateless, with JSON answers."""
    server: FastMCP[Any] = FastMCP("noop")

    @server.tool
    def claim_item(actor: dict[str, Any], requestId: str, claims: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        return {"claimed": len(claims), "by": actor["id"], "request": requestId}

    return server.http_app(stateless_http=True, json_response=True)
