"""Bases and types that the contracts of the items toolset and its table of fields are made of."""
