"""Actors: the proof is verified (``resolver``), then the degraded-mode policy (``policy``) decides which identity
counts.

An identified caller can name no actor but itself (``attribution``); ``callers`` trusts that actor under every policy.
"""
