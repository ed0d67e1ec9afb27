"""``fleet run``: its flags, its metrics, and what it leaves behind."""
