"""Keys that verify tokens. If a known key can verify one, the call never waits for a key server.

``sources`` load keys: ``fetch`` gets them over HTTP within limits, ``did`` and ``ssrf`` guard URLs that others choose,
and ``keyset`` decides which keys are accepted. ``cache`` holds the keys of one source and renews them in the
background. ``copies`` shares them through the store: one process fetches, the others take its copy, and a process that
starts later begins with the last good keys. ``resolvers`` find the keys that may have signed a token.
"""
