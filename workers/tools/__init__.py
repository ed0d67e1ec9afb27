"""The tools that steps call, in one registry with several sources.

``own`` has the tools of the coordinator's toolsets, ``downstream`` those of MCP servers,
``python`` callables, ``demo`` a few for trying things out; ``refusals`` reads why a call failed. ``registry``
finds a tool by its name and carries a step's work out; ``coordinator.steps.names`` knows the names without any of this.
"""
