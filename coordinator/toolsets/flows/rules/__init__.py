"""Pure rules of this toolset: no I/O; time and ids are passed in."""
