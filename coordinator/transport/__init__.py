"""MCP over HTTP and stdio, and the endpoints for operators.

A request takes one of two ways to a tool, and gets the same answer on both:

- The SDK's server (``sdk``) implements the whole protocol. ``slow_path`` and ``guards`` stand in front of it and
  check what it leaves unchecked.
- The fast path (``fast_path``, ``envelope``) answers well-formed calls of quick tools at a tenth of the cost.
  ``fast_path_http`` also skips the parsing of HTTP heads that were seen before.

Both run tools through ``calls``. ``authorization`` checks on both who is calling, and with which permissions; ``media``
negotiates media types, and ``cors`` decides which pages in browsers may read the answer.

``protocol`` limits the time and size of arriving requests, and the number of idle clients. ``endpoints`` maps paths to
tools. ``health`` answers probes and scrapes; ``admin`` serves these on a separate port.
``welcome`` is the page for people who open the address. ``stdio`` serves one local client. ``streams`` is what answers
that last have in common: those of ``feed``, of ``listening`` (subscriptions), and of the console. ``app`` puts it all
together. The schemas of tools and the decoding of arguments do not depend on the transport, so they are in
``coordinator.toolsets`` (``schema``, ``arguments``).

Guaranteed:

* No state is kept between two requests, nor per connection. Any process answers any request.
* Every request is answered: handlers have a deadline, and so does the receipt of a body.
* An answer of the fast path equals that of the SDK's server in status, content type and meaning.
* If a bearer token is required or presented, no body is parsed before the token is verified.

Not guaranteed: that a call answered with ``deadline_exceeded`` or ``store_unavailable`` had no effect. Callers repeat
it with the same request id to find out.
"""

from coordinator.transport.app import FrontEnd
from coordinator.transport.fast_path_http import http_protocol

__all__ = ["FrontEnd", "http_protocol"]
