"""The contract of the items toolset: arguments and results of every tool."""
