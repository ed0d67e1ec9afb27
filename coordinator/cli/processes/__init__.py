"""Commands that run processes, and those about processes that run."""
