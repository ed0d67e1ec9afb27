"""MCP over standard streams, for one local client."""
