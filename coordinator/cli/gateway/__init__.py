"""``fleet gateway``: checks the configuration, prints the audit, answers approvals."""
