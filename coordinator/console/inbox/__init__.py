"""What waits for a person, and what has been answered."""
