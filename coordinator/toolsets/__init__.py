"""The toolsets: one package per toolset with the same layout; none imports another.

The modules beside them are common to all: ``tool`` defines what a tool is, ``schema`` describes tools to callers,
``arguments`` decodes what a caller sent into a tool's struct, ``caller`` and ``actor`` identify caller and actor,
``request_id`` is their field for retries, ``timestamp`` writes times. ``registry`` lists all toolsets.

A module in ``tools`` begins with the descriptions of its tools. Then come a class whose methods are their handlers,
the function ``tools``, which lists them, and helper functions.
"""
