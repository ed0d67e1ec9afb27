"""Runs in the rival's own environment: ``dbos_steps.py URL WORKFLOWS THREADS``; prints steps per second."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]

STEPS = 5


@DBOS.step()  # type: ignore[untyped-decorator, unused-ignore]
def step(number: int) -> int:
    return number


@DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]
def workflow() -> None:
    for number in range(STEPS):
        step(number)


def main() -> None:
    url, workflows, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: workflow(), range(max(10, workflows // 10))))
        began = time.perf_counter()
        list(pool.map(lambda _: workflow(), range(workflows)))
        seconds = time.perf_counter() - began
    DBOS.destroy()
    print(workflows * STEPS / seconds)


if __name__ == "__main__":
    main()
