"""The embedded cluster's data directory: restarts, its owner, and the number of its servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import DataDirBusy, DataDirUnusable, EmbeddedServer, find_running, known_url
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client


def test_a_restart_keeps_data_and_address(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, 2) as cluster:
        url = cluster.url
        assert find_running(tmp_path) == url
        with client(parse(url), "kept") as one:
            one.set("fc:{kept}:x", "here")
    assert (known_url(tmp_path), find_running(tmp_path)) == (url, None)
    with EmbeddedCluster(tmp_path, 2) as cluster, client(parse(cluster.url), "kept") as one:
        assert (cluster.url, one.get("fc:{kept}:x")) == (url, b"here")


def test_a_data_directory_has_one_owner(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, 1) as cluster:
        with pytest.raises(DataDirBusy, match="in use by another fleet"):
            EmbeddedCluster(tmp_path, 1).start()
        assert find_running(tmp_path) == cluster.url


def test_the_number_of_servers_is_fixed(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "cluster", 1):
        pass
    with pytest.raises(DataDirUnusable, match="made with shards 1"):
        EmbeddedCluster(tmp_path / "cluster", 2).start()
    with pytest.raises(DataDirUnusable, match="made with shards 1: the setting cannot be changed"):
        EmbeddedServer(tmp_path / "cluster").start()
    with EmbeddedServer(tmp_path / "single"):
        pass
    with pytest.raises(DataDirUnusable, match="made with shards 1"):
        EmbeddedCluster(tmp_path / "single", 3).start()
    assert not (tmp_path / "single" / "shards").exists()
