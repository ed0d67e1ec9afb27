"""Benchmarks: each script asks one question and prints ratios measured side by side in one run.

``make bench`` runs all of them, ``make bench ARGS="NAME ..."`` one, ``make bench ARGS=--smallest`` all in rounds of a
few seconds. Speed is never asserted: the figures depend on the machine, the ratios much less. That answers are right
is: a benchmark fails where the product or a rival answers an error, or other than expected. Some need PostgreSQL or
other programs, and are listed as not run where these are not installed.
"""
