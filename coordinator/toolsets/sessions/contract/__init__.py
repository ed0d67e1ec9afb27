"""Arguments and results of the sessions toolset, as seed 000 names them; nothing else."""
