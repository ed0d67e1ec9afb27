"""What the gateway decides without asking anybody: pure functions, time and ids passed in."""
