"""Pure rules of this room: no I/O; time and ids are passed in."""
