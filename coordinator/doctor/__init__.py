"""What is wrong with a fleet and with what it depends on: findings, each with what to do about it.

``fleet`` runs the checks of a fleet's stores: those of servers are in ``store`` and ``cluster``, those of what servers
have in ``queues``, ``items`` and ``connections``. ``host`` checks this host, and ``alerts`` the conditions of alerts of
Prometheus, by the gauges of this host. ``identity`` tries key sources and judges tokens, and ``actors`` explains the
settings for them.

Checks return ``Finding`` and raise ``StoreError`` where a store cannot be read at all; commands find the stores, print
and choose exit codes (``coordinator.cli.doctor``).
"""
