"""Tests of the client library. A package, so that its fleet ends with its last test."""
