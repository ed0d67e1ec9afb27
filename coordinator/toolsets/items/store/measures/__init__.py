"""A project in numbers."""
