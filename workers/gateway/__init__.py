"""What executes the transitions of the gateway's workflows: commands, HTTP, MCP tools, sub-workflows and flows.

Attempts that fail do so under a class that policies name: ``timeout``, ``transient_error``,
``rate_limited``, ``connection_error``, ``permanent_error``. ``executor`` chooses by kind and bounds the
time; ``servers`` keeps the lists of downstream tools, ``copies`` the audit in a file, each in one worker
for the whole fleet.
"""
