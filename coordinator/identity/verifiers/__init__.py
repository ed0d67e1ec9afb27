"""Verifiers of tokens: ``jwks`` checks signatures, ``noop`` nothing; ``build`` makes one from its settings.

PyJWT checks the signature, ``claims`` the times and names. ``proof_cache`` remembers verified tokens by their hash.
"""
