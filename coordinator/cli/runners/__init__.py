"""``fleet run``: its flags, and what it leaves behind."""
