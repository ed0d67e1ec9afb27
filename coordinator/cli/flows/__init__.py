"""``fleet flows``: workflows in the terminal, for operators."""
