"""Which projects there are, and which of them need work by time."""
