"""Downstream MCP servers: a session with each, opened when first needed, kept, and opened again when it died.

``server`` is what callers use, ``session`` one session from its opening to its end, ``failures`` what can go
wrong. The MCP client library is wrapped where it leaves something open: ``answers`` and ``stdio`` bound what it would
read whole, ``checked`` keeps results whose schema is not to be had, ``watched`` notices the end of a server while
nobody calls, ``stderr`` logs what a server writes.
"""
