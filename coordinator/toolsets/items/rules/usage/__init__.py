"""Usage: sums, and budgets."""
