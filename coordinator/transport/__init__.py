"""MCP over HTTP and stdio, and the endpoints for operators.

A request takes one of two ways to a tool, and gets the same answer on both:

- The SDK's server (``mcp``) implements the whole protocol. ``http/slow_path.py`` and ``http/guards.py`` stand in front
  of it and check what it leaves unchecked.
- The fast path (``fast_path``) answers well-formed calls of quick tools at a tenth of the cost; its ``http`` also skips
  the parsing of HTTP heads that were seen before.

Both run tools through ``calls``, and read the ``envelope`` of a call. ``endpoints`` maps paths to tools. What carries a
call over several requests is in ``rounds``, sealed. ``http`` has the application that puts it all together, ``stdio``
serves one local client, ``feed`` the change feed. ``streams`` is what answers that last have in common: those of the
feed, of subscriptions (``mcp/listening.py``), and of the console. The schemas of tools and the decoding of arguments do
not depend on the transport, so they are in ``coordinator.toolsets`` (``schema``, ``arguments``).

Guaranteed:

* No state is kept between two requests, nor per connection. Any process answers any request.
* Every request is answered: handlers have a deadline, and so does the receipt of a body.
* An answer of the fast path equals that of the SDK's server in status, content type and meaning.
* If a bearer token is required or presented, no body is parsed before the token is verified.

Not guaranteed: that a call answered with ``deadline_exceeded`` or ``store_unavailable`` had no effect. Callers repeat
it with the same request id to find out.
"""

from coordinator.transport.fast_path.http import http_protocol
from coordinator.transport.http.app import FrontEnd

__all__ = ["FrontEnd", "http_protocol"]
