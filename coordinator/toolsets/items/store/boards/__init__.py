"""Lists and graphs of items that people read."""
