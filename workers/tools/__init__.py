"""The tools that steps call, in one registry with several sources.

The sources: ``own`` has the tools of the coordinator's toolsets, ``downstream`` those of MCP servers,
``python`` configured callables, ``demo`` a few for trying things out. ``registry`` finds a tool by its name and
calls it. ``results`` reads the outcome of a call, ``retrying`` retries calls that were shed, ``rights``
checks what a workflow's creator may do now. ``coordinator.steps.names`` knows the names of tools without all this.
"""
