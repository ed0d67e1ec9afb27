"""Other systems that the store is compared with, each driven by its own tools."""
