"""Pure functions: where a walk stands, what may be done, what an action changes."""
