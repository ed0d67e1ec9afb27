"""Connections to the servers and programs of the settings, and why they fail."""
