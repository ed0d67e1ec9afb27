"""Agents: what is known of them, their questions, and what workers take and report."""
