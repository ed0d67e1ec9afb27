"""The configurations of proxies, with the real programs in front of two front-ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from coordinator.client import Fleet
from tests.client.backlog import seen
from tests.support.fleets import ROOT, RunningCommand
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.anyio
PROXIES = ROOT / "deploy" / "proxy"


def found(program: str) -> str:
    path = shutil.which(program, path=f"{Path('/usr/sbin')}:{Path('/usr/local/sbin')}") or shutil.which(program)
    if path is None:
        pytest.skip(f"no {program} here; the package {program} brings it")
    return path


def configured(file: str, here: int, ports: list[int], folder: Path) -> Path:
    """A configuration of the folder with other addresses, which are all that is changed."""
    text = (PROXIES / file).read_text()
    for name, port in zip(("fleet-a:8420", "fleet-b:8420"), ports, strict=True):
        assert text.count(name) == 1
        text = text.replace(name, f"127.0.0.1:{port}")
    place = {"nginx.conf": "listen 8080", "haproxy.cfg": "bind :8080"}[file]
    assert text.count(place) == 1
    path = folder / file
    path.write_text(
        text.replace(place, place.replace(":8080", f"127.0.0.1:{here}").replace("8080", f"127.0.0.1:{here}"))
    )
    return path


@contextmanager
def nginx(here: int, ports: list[int], folder: Path) -> Iterator[None]:
    program, part = found("nginx"), configured("nginx.conf", here, ports, folder)
    temporary = "".join(
        f"{name}_temp_path {folder / name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = folder / "whole.conf"
    whole.write_text(
        f"daemon off; master_process off; pid {folder / 'pid'}; error_log stderr notice;"
        f"events {{}} http {{ access_log off; {temporary} include {part}; }}"
    )
    command = [program, "-e", "stderr", "-p", str(folder), "-c", str(whole)]
    subprocess.run([*command, "-t"], check=True, capture_output=True, timeout=60)
    with running(command, folder):
        yield


@contextmanager
def haproxy(here: int, ports: list[int], folder: Path) -> Iterator[None]:
    program, path = found("haproxy"), configured("haproxy.cfg", here, ports, folder)
    subprocess.run([program, "-c", "-f", str(path)], check=True, capture_output=True, timeout=60)
    with running([program, "-db", "-f", str(path)], folder):
        yield


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (folder / "log").read_text()
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str) -> bool:
    try:
        with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as asked:
            asked.request("GET", "/readyz")
            return asked.getresponse().status == 200
    except OSError:
        return False


@pytest.mark.parametrize("proxy", [nginx, haproxy])
async def test_clients_work_on_through_a_proxy_when_a_host_ends(
    proxy: Callable[..., AbstractContextManager[None]], redis_url: str, project: str, tmp_path: Path
) -> None:
    ports, here = [free_port(), free_port()], free_port()
    url = f"http://127.0.0.1:{here}"
    fronts = [
        RunningCommand(
            *(tmp_path / f"output-{port}", "serve", "--port", str(port), "--frontends", "1"),
            *("--data-dir", str(tmp_path / f"data-{port}")),
            FLEET_REDIS_URL=redis_url,
        )
        for port in ports
    ]
    try:
        for one in fronts:
            one.wait_ready()
        with proxy(here, ports, tmp_path):
            wait_until_sync(lambda: answers(url), what="the proxy to answer")
            async with Fleet(url, project=project) as fleet:
                tree = await fleet.plan({"title": "all", "children": [f"item {number}" for number in range(12)]})
                # An event arrives while its stream goes on, so nothing holds it back.
                reader, writer = await asyncio.open_connection("127.0.0.1", here)
                writer.write(
                    f"GET /feed/{project} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode()
                )
                async with asyncio.timeout(60):
                    await reader.readuntil(b"event: ready")
                    await fleet.call("manage_items", {"operation": "create", "items": [{"title": "told"}]})
                    await reader.readuntil(b'"item.create"')
                writer.close()
                done: list[str] = []
                async with asyncio.timeout(90):
                    async for job in fleet.jobs(ancestor=tree.id, until=tree, ttl=5):
                        async with job:
                            if len(done) == 3:
                                fronts[0].process.kill()
                                fronts[0].process.wait(10)
                            await job.done(job.title)
                            done.append(job.title)
                assert sorted(done) == sorted(f"item {number}" for number in range(12))
                ended = [
                    one["toRole"] for item in tree.ids.values() for one in (await seen(fleet, item))["transitions"]
                ]
                assert ended.count("terminal") == 13
                # A wait that is longer than usual timeouts is answered, not cut.
                await fleet.call("claim_item", {"claims": [{"selector": {"tags": "none"}}], "waitMs": 3000})
    finally:
        for one in fronts:
            one.clean_up()


def test_waits_and_heartbeats_fit_into_the_timeouts() -> None:
    nginx_conf, haproxy_cfg = ((PROXIES / name).read_text() for name in ("nginx.conf", "haproxy.cfg"))
    assert "proxy_read_timeout 75s" in nginx_conf
    assert haproxy_cfg.count(" 75s") == 3
    assert json.dumps(nginx_conf).count("non_idempotent") == 0
