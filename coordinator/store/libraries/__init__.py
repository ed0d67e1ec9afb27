"""Function libraries of Redis, built from the Lua files of packages."""
