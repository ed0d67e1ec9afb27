"""The page at ``/``, for people who open the server's address: what it is, and its URLs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from coordinator.transport.http.replies import Header

_STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}code{font-size:.9em}"
HEADERS: list[Header] = [
    # Only the page's own style is allowed.
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept"),
]
_INTRODUCTION = (
    "This is a fleet coordinator: AI agents share one backlog and one set of workflows here. It speaks MCP (the Model "
    "Context Protocol) over HTTP, so it is for MCP clients and not for browsers."
)


class Place(NamedTuple):
    """Something that this server serves."""

    what: str
    url: str
    """Or the path."""
    needs_token: bool = False


class Welcome:
    """The page of one process.

    Args:
        resource: the public address; empty: the address of the request.
        toolsets: all of them, shown to everybody; empty: callers have to authenticate first.
        guarded: whether clients need a bearer token.
        probes: the paths of health and metrics that this port serves.
    """

    def __init__(self, resource: str, toolsets: Sequence[str], guarded: bool, probes: Sequence[str]) -> None:
        self._resource = resource.rstrip("/")
        self._toolsets = tuple(toolsets)
        self._guarded = guarded
        self._probes = tuple(probes)

    def page(self, host: str, html: bool) -> bytes:
        """The page.

        Args:
            host: the ``Host`` of the request, which has been checked.
            html: for a browser; else in plain text, for programs.
        """
        if not html:
            lines = [_INTRODUCTION, "", *(f"{what}: {where}" for what, where, _ in self.places(host)), ""]
            return "\n".join(lines).encode()
        endpoint = escape(self._endpoint(host))
        rows = "".join(f"<li>{escape(what)}: <code>{escape(where)}</code></li>" for what, where, _ in self.places(host))
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Fleet coordinator</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{_STYLE}</style></head><body><h1>Fleet coordinator</h1><p>{escape(_INTRODUCTION)}</p>"
            f"<ul>{rows}</ul><p>For example, with Claude Code:</p>"
            f"<p><code>claude mcp add --transport http fleet {endpoint}</code></p></body></html>"
        ).encode()

    def _endpoint(self, host: str) -> str:
        return f"{self._resource or f'http://{host}'}/mcp"

    def places(self, host: str) -> list[Place]:
        """What there is, the MCP endpoint first, as seen by a client that asks for this host."""
        endpoint = self._endpoint(host)
        token = " (needs a bearer token)" if self._guarded else ""
        places = [Place(f"MCP endpoint{token}", endpoint, self._guarded)]
        places += [Place(f"only the toolset {name}", f"{endpoint}/{name}") for name in self._toolsets]
        places.append(Place("another project", endpoint.removesuffix("/mcp") + "/p/PROJECT/mcp"))
        places.append(
            Place(f"change feed of a project{token}", endpoint.removesuffix("/mcp") + "/feed/PROJECT", self._guarded)
        )
        names = {"/healthz": "whether it is alive", "/readyz": "whether it is ready", "/metrics": "metrics"}
        return places + [Place(name, path) for path, name in names.items() if path in self._probes]
