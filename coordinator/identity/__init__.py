"""Who is calling: verification of actors and what is trusted when it cannot be done, and the front door.

Two questions are asked of a call, and answered apart from each other:

* *Who makes this request?* The door (``door``) asks it of the bearer token that comes with the
  request, before anything else of it is looked at. Tokens are static ones, of which a file has the digests
  (``token_file``; ``token_edit`` changes it), or JWTs. The answer is a ``Grant``: the caller, and
  where his token is good (``grants``, ``bearers``, ``permissions``).
* *Who acts in this call?* The resolver of actors (``actors``) asks it of the ``actor`` in the
  arguments and of its proof, and applies the degraded-mode policy (``policy``).

They meet in ``signing``: a caller who is known stands wherever a call names no actor, and no other
actor may stand there. ``callers`` lets the resolver trust him, because his token has proved
who he is. JWTs are verified by a ``verifier`` in either case, with the same code and not
necessarily with the same keys.
"""
