"""Callers: a bearer token is looked up in the token file (``token_file``), or verified as a JWT (``authenticator``).

The result says who is calling, and with which permissions (``grants``, ``permissions``). ``rights`` says what the
credential (``credentials``) of a caller may do later, who has begun something that goes on without it.
"""
