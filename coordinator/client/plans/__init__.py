"""Trees of work as people write them: plans, and task lists in Markdown."""
