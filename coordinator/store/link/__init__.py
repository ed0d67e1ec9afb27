"""The connections to the store: ``shared`` is the one that all calls of a process use."""
