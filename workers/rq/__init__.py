"""What RQ and its tools see of a worker (``worker``), and the queues that they share.

``display`` shows long steps to RQ's tools. ``relay`` moves jobs to the queues if these are in another Redis than the
store. ``single`` runs one step in a stock RQ worker.
"""
