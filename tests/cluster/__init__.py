"""Tests of a cluster of three primaries with a replica each, whose nodes are killed, stopped, moved and added."""
