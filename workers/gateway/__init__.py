"""Executes the transitions of the gateway's workflows: commands, HTTP, MCP tools, sub-workflows and flows.

A failed attempt has one of the error classes that policies name: ``timeout``, ``transient_error``,
``rate_limited``, ``connection_error``, ``permanent_error``. ``executor`` chooses the executor by kind and limits its
time. ``servers`` keeps the lists of downstream tools, ``copies`` copies the audit to a file; one worker does each of
these for the whole fleet.
"""
