"""Benchmarks: each script asks one question and prints ratios measured side by side in one run.

``make bench`` runs all of them, ``python -m benchmarks NAME`` one. Nothing here asserts: the
figures depend on the machine, the ratios much less. Load comes from ``wrk`` (front-end) and
from pipelined connections (store), never from the process that is measured.
"""
