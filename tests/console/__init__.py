"""Tests of the console. A package, so that its fleets end with its last test."""
