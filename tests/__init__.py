"""All tests. A package like the folders in it whose fixtures end with their last test."""
