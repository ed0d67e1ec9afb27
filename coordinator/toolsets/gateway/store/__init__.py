"""Instances, approvals, audit and what is known of downstream servers, in Redis."""
