"""The rules of README.md as pure functions: no I/O; time and ids are passed in."""
