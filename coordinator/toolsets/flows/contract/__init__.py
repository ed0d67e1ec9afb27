"""Arguments and results of the tools."""
