"""Commands on whole projects: ``fleet project``, and the format ``fleet`` of exports and imports."""
