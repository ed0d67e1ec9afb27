"""Graphs as pictures, and where their nodes stand."""
