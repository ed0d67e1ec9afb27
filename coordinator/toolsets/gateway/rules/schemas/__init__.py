"""JSON Schemas of others: values are checked against them in limited time."""
