"""What a setting that names a Redis may hold. ``coordinator.store.address`` reads such URLs part by part."""

REDIS_PATTERN = r"^((rediss?(\+sentinel)?|unix)://\S+)?\Z"
REDIS_ALLOWED = "empty or a redis[s]://, redis[s]+sentinel:// or unix:// URL"
