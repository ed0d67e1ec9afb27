"""Fences: what keeps calls from a project while it is copied to another store, and after it has left."""
