"""``fleet gateway``: checks the configuration, shows connections, prints the audit, answers approvals."""
