"""The rules of seed 004 as pure functions: no I/O; time and ids are passed in."""
