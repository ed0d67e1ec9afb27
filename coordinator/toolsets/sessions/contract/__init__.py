"""Arguments and results of the sessions toolset."""
