"""HTTP servers for comparison with the front-end, each as plain as its kind allows.

``python -m benchmarks.servers KIND PORT REDIS_URL`` runs one in a separate process, on the same event
loop, HTTP parser and options as the front-end.
"""
