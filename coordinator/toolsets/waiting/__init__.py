"""Waiting reads: a call waits until what it reads has changed, or is a task meanwhile."""
