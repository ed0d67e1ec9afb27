"""HTTP servers that the front-end is compared with, each as plain as its kind allows.

``python -m benchmarks.servers KIND PORT REDIS_URL`` runs one in a process of its own, on
the same event loop, HTTP parser and options as the front-end.
"""
