"""Child processes of a worker: Python callables (``isolated``), and a guard.

The guard is a process that ends servers, commands and what callables have started when the worker has ended.
"""
