"""Times: what callers say of them, and when templates recur."""
