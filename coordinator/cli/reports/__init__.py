"""Commands that tell what has happened in a project, and whether its records agree."""
