"""Arguments and results of the tools of seed 003."""
