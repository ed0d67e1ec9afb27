"""Benchmarks: each script asks one question and prints ratios measured side by side in one run.

``make bench`` runs all of them, ``make bench ARGS="NAME ..."`` one. Speed is never asserted: the figures
depend on the machine, the ratios much less. Some need ``wrk`` or PostgreSQL, and are skipped where these
are not installed.
"""
