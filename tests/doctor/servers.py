"""What servers say of themselves with which all is well."""

from __future__ import annotations

from typing import Any

GOOD_INFO: dict[str, Any] = {
    "redis_version": "7.2.0",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "used_memory": 10 * 2**20,
    "maxmemory": 0,
    "role": "master",
    "connected_slaves": 1,
}
GOOD_CONFIG = {
    "appendfsync": "always",
    "maxmemory-policy": "noeviction",
    "hash-max-listpack-value": "512",
    "min-replicas-to-write": "1",
}
