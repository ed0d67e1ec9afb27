"""Items in lists, in graphs and on their own page."""
