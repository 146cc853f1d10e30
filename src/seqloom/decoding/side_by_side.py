"""Jobs of many small steps on several processor cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")


def side_by_side(function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """map(function, jobs), one job on each core that torch may use.

    The steps of a search are too small to be worth dividing among cores; whole batches are.
    """
    cores = torch.get_num_threads()
    if cores == 1 or len(jobs) < 2:
        yield from map(function, jobs)
        return

    def alone(job: Job) -> Result:
        torch.set_num_threads(1)  # holds for the thread that says so, and for the library of products everywhere
        return function(job)

    try:
        with ThreadPoolExecutor(cores) as pool:
            contexts = [copy_context() for _ in jobs]  # who waits for this waits for each job
            yield from pool.map(lambda context, job: context.run(alone, job), contexts, jobs)
    finally:
        torch.set_num_threads(cores)
