"""Pure functions: the position of a walk, its possible actions, and their effects."""
