"""The contract of the worker toolset."""
