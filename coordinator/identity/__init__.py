"""Who is calling: over HTTP or stdio with a bearer token, and in ``actor`` with a proof.

**Actors** (``actors``): a proof is verified (``verifier`` is the interface, ``noop`` and ``jwks``
implement it), and the degraded-mode policy (``policy``) says whose word counts then. **Callers**
(``authenticator``): a bearer token is looked up in the token file (``token_file``) or verified likewise,
and names who is calling and what he may do (``grants``).

**From a token to an outcome**: ``jws`` reads it strictly, ``key_resolvers`` find the keys that may have
signed it, PyJWT checks the signature, ``claims`` times and names. ``proof_cache`` remembers what was
verified, by the token's hash.

**Keys** never keep a call waiting that a known key can answer. ``sources`` say how keys are loaded
(``fetch`` over HTTP within limits, ``did`` and ``ssrf`` where others choose the URL,
``keyset`` which keys count). ``key_cache`` holds those of one source and renews them in the
background; ``copies`` is the fleet's side of it, in the store: one process asks, the others take
what it got, and a process that starts later begins with the last good keys. ``clock`` is the
fleet's time. ``build`` makes a verifier of all that from its settings.

**Attribution** (``attribution``): an actor in the arguments of an identified caller has to be that
caller, whom ``callers`` then trusts under every policy. ``permissions`` says what permissions mean.

What this does not promise: that a withdrawn key stops verifying before the fleet has asked again.
That is at the latest after ``cache_ttl_seconds`` while the key server answers; while it does not,
``stale_on_error`` decides. The authenticator goes by what it found of a bearer token for as long again.
"""
