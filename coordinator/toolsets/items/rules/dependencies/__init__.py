"""Dependencies: edges, the graph that they make, levels, and the critical path."""
