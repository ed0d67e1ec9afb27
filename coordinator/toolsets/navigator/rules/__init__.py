"""Pure functions: the position of a walk, what may be done there, and what an action changes."""
