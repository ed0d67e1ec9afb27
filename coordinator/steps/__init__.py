"""The step-run primitive: what workers execute for flows and, later, the gateway."""
