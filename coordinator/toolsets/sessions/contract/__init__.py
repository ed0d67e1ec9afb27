"""Arguments and results of the sessions toolset; nothing else."""
