"""The fleet coordinator: stateless MCP front-ends over one shared Redis."""

__version__ = "0.1.0"
