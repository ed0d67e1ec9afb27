"""The toolsets: one package per toolset, all laid out alike; none imports another.

The modules beside them are common to all: ``tool`` defines what a tool is, ``schema`` describes tools to callers,
``arguments`` decodes what a caller sent into a tool's struct, ``caller`` and ``actor`` say who calls and who acts,
``request_id`` is their field for repeated calls, ``timestamp`` writes times. ``registry`` lists all toolsets.

A module in ``tools`` begins with the descriptions of its tools. Then come a class whose methods are their handlers,
the function ``tools``, which lists them, and helper functions.
"""
