"""Commands about agents, and about what they are told."""
