"""Identifies callers (by a bearer token, over HTTP or stdio) and actors (by a proof in ``actor``).

**Callers** (``authenticator``). A bearer token is looked up in the token file (``token_file``), or verified as a JWT.
The result says who is calling, and with which permissions (``grants``, ``permissions``). ``rights`` says what the
credential (``credentials``) of a caller may do later, who has begun something that goes on without it.

**Actors** (``actors``). The proof is verified (``verifier`` is the interface, ``noop`` and ``jwks`` implement it).
Then the degraded-mode policy (``policy``) decides which identity counts.

**Attribution** (``attribution``). An identified caller can name no actor but itself; ``callers`` trusts that actor
under every policy.

**Verification of a token.** ``jws`` parses it strictly, ``key_resolvers`` find the keys that may have signed it, PyJWT
checks the signature, and ``claims`` the times and names. ``proof_cache`` remembers verified tokens by their hash.

**Keys.** If a known key can verify a token, the call never waits for a key server. ``sources`` load keys: ``fetch``
gets them over HTTP within limits, ``did`` and ``ssrf`` guard URLs that others choose, and ``keyset`` decides which keys
are accepted. ``key_cache`` holds the keys of one source and renews them in the background. ``copies`` shares them
through the store: one process fetches, the others take its copy, and a process that starts later begins with the last
good keys. ``clock`` is the fleet's time. ``build`` makes a verifier from its settings.

Not guaranteed: that a withdrawn key stops verifying at once. It does when the fleet has renewed its keys: after
``cache_ttl_seconds`` at the latest if the key server answers; if not, ``stale_on_error`` decides. Results for bearer
tokens are kept for up to ``cache_ttl_seconds`` more.
"""
