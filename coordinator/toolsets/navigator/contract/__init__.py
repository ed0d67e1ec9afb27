"""Arguments and results of the tools, one struct each."""
