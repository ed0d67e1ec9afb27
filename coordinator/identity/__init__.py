"""Identifies callers (by a bearer token, over HTTP or stdio) and actors (by a proof in ``actor``).

``callers`` identifies who calls and what that permits, ``actors`` who acts in a call. Both have tokens verified:
``verifier`` is the interface of ``verifiers``, ``jws`` parses tokens strictly, ``keys`` finds what may have signed one.
``clock`` is the fleet's time.

Not guaranteed: that a withdrawn key stops verifying at once. It does when the fleet has renewed its keys: after
``cache_ttl_seconds`` at the latest if the key server answers; if not, ``stale_on_error`` decides. Results for bearer
tokens are kept for up to ``cache_ttl_seconds`` more.
"""
