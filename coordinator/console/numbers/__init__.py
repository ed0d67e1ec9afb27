"""The fleet and its projects in numbers, and why nothing moves."""
