"""Pure rules of the sessions toolset: no I/O; times, ids and keys are passed in."""
