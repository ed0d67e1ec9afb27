"""Data directories that another user has made ready: they are not used, and links in them are not followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.doctor import host
from coordinator.metrics.slots import owned
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import FleetFile, in_use, read_fleet
from coordinator.processes.stores import running_url
from coordinator.settings import Settings
from coordinator.store.checks.identity import IdentityFile
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import DataDirUnusable, EmbeddedServer, known_url
from tests.support.users import common_folder, without_privileges

STRANGER = 54_321

USES: dict[str, Callable[[Path], object]] = {
    "a server": lambda place: EmbeddedServer(place).start(),
    "a cluster": lambda place: EmbeddedCluster(place, 3).start(),
    "a fleet": FleetFile,
}


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of another user, with all that says where a fleet is."""
    place = tmp_path / "data"
    place.mkdir()
    (place / "redis.password").write_text("secret")
    (place / "redis.port").write_text("1")
    (place / "store.json").write_text('{"embedded": "theirs"}')
    if os.geteuid() == 0:
        os.chown(place, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    return place


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_nothing_is_started_in_a_directory_of_another_user(strange: Path, use: Callable[[Path], object]) -> None:
    before = sorted(strange.iterdir())
    with pytest.raises((DataDirUnusable, ProcessProblem), match="it belongs to another user"):
        use(strange)
    assert sorted(strange.iterdir()) == before


def test_nothing_that_it_says_is_believed(strange: Path) -> None:
    assert (known_url(strange), in_use(strange), read_fleet(strange)) == (None, False, None)
    assert IdentityFile(strange, "embedded").read() == ""
    with pytest.raises(ProcessProblem, match="belongs to another user: run this as that user"):
        running_url(Settings(data_dir=str(strange)))


def test_a_closed_directory_is_named() -> None:
    with common_folder() as folder:
        place = folder / "data"
        place.mkdir(mode=0)
        with without_privileges():
            for one in (place, place / "deeper"):
                assert (known_url(one), in_use(one), owned(one / "run" / "metrics")) == (None, False, [])
                assert all(found.verdict != "fails" for found in host.check(Settings(data_dir=str(one))))
            with pytest.raises(ProcessProblem, match="belongs to another user: run this as that user"):
                running_url(Settings(data_dir=str(place)))
        place.chmod(0o700)


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["owner.lock", "server.lock", "fleet.lock"])
def test_a_lock_is_no_link(tmp_path: Path, name: str, link: Callable[[Path, Path], None]) -> None:
    """Else the file that it leads to would be emptied, or written to."""
    target, place = tmp_path / "target", tmp_path / "data"
    target.write_text("precious")
    place.mkdir()
    link(target, place / name)
    with pytest.raises((DataDirUnusable, ProcessProblem), match="cannot be used"):
        FleetFile(place) if name == "fleet.lock" else EmbeddedServer(place).start()
    assert target.read_text() == "precious"
    assert not in_use(place)
