"""Other systems for comparison with the store, each driven by its own tools."""
