"""The fast path: well-formed calls of quick tools, at a tenth of the cost."""
