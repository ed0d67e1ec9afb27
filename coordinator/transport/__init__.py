"""MCP over HTTP and stdio, and the endpoints that operators ask.

The SDK's server is the complete one and answers everything the protocol knows (``sdk``). In
front of it stand guards for what it leaves open (``slow_path``, ``guards``), and a fast path
that answers well-formed calls of quick tools by itself, at a tenth of the cost
(``fast_path``, ``envelope``). The same tools, through the same ``calls``, are behind both, so
which of them answers can be told from the time only.

``fast_path_http`` spares requests whose head has been seen before the parsing of it, within the
server's HTTP protocol; ``protocol`` bounds there how requests arrive. ``authorization`` asks on every
way who is calling, and keeps strangers and those without permission out. ``endpoints`` says which
tools answer at which path, ``health`` answers operators (``admin`` on a port of their own),
``stdio`` serves one local client, and ``app`` puts it all together. How tools are described and
what callers send is made their arguments is the same everywhere, and so beside the tools
(``coordinator.toolsets.schema`` and ``arguments``).

What may be relied on:

* No state is kept between two requests, nor with a connection. Any process answers any request.
* A request gets an answer: handlers within the deadline, bodies within their own.
* An answer of the fast path equals the SDK's server's in status, content type and meaning.
* Where a bearer token is required or presented, no body is parsed before it was found good.

What this does not promise: that a call answered with ``deadline_exceeded`` or
``store_unavailable`` had no effect; tools take a request id to ask again with.
"""

from coordinator.toolsets.schema import ContractError
from coordinator.transport.app import FrontEnd
from coordinator.transport.calls import Hooks
from coordinator.transport.endpoints import EndpointError
from coordinator.transport.fast_path_http import http_protocol

__all__ = ["ContractError", "EndpointError", "FrontEnd", "Hooks", "http_protocol"]
