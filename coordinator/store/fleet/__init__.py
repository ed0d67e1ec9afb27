"""What the processes of a fleet know of each other: their states, drains, and who leads which task."""
