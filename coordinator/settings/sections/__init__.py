"""The larger sections of the settings, and the values that each takes."""
