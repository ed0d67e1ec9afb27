"""``fleet flows``: workflows as operators see them, drawn in the terminal."""
