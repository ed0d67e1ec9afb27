"""The metrics of items: claims, levels, resources and what agents use."""
