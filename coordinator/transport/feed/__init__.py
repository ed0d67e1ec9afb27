"""The change feed over HTTP."""
