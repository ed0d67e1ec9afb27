"""Downstream MCP servers: one session with each, opened when first needed, kept, and opened again after it died.

Callers use ``server``. ``session`` is one session from its opening to its end, ``contents`` reads results, ``failures``
says what can go wrong, and ``reasons`` why, in words.
The other modules add what the MCP client library lacks. ``answers`` and ``stdio`` limit the size of what is read,
``unread`` finds the request whose answer cannot be read, ``process`` is a server that is a child process, ``listing``
mends lists of tools, ``checked`` checks results, and keeps those whose schema cannot be read, ``asked`` refuses what
servers ask for, ``watched`` notices the end of a server while nobody calls it, ``stderr`` logs what a server writes.
"""
