"""``fleet gateway``: what is wrong with its configuration, what happened in it, what it asks people for."""
