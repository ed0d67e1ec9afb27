"""The gateway's rules: pure functions; time and ids are passed in."""
