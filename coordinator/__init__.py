"""The fleet coordinator: stateless MCP front-ends over one shared Redis."""

__version__ = "0.1.0"
NAME = "fleet-coordinator"
"""Its name to the clients and servers that it speaks MCP with."""
