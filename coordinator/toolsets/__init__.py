"""The toolsets: one package for each seed, all laid out alike; none imports another.

Beside them is what is common to all of them: what a ``tool`` is, ``schema``, which describes tools to callers,
``arguments``, which turns what a caller sent into a tool's struct, who acts (``caller``, ``actor``), ``request_id``
and ``timestamp``. ``registry`` has them all.

Each module of tools begins with their descriptions; then come a class whose methods are their handlers, ``tools``,
which lists them, and helper functions.
"""
