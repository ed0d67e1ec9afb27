"""Servers that the fleet starts for itself: one, or a cluster of them."""
