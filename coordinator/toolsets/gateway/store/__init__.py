"""Instances, approvals, audit and tool lists of downstream servers, in Redis."""
