"""Tests of runners. A package, so that its fleet ends with its last test."""
