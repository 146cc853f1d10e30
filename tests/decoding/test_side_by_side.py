"""Jobs side by side give what they give one after the other, and leave torch's threads as they were."""

from __future__ import annotations

import pytest
import torch

from seqloom.decoding.side_by_side import side_by_side


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_results_stand_in_the_order_of_the_jobs_each_computed_by_one_thread() -> None:
    found = list(side_by_side(lambda job: (job * job, torch.get_num_threads()), range(20)))
    assert found == [(job * job, 1) for job in range(20)]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_what_goes_wrong_in_a_job_reaches_the_caller() -> None:
    def fail(job: int) -> int:
        if job == 3:
            raise ValueError("job 3")
        return job

    with pytest.raises(ValueError, match="job 3"):
        list(side_by_side(fail, range(6)))
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_single_job_keeps_all_threads() -> None:
    assert list(side_by_side(lambda job: torch.get_num_threads(), [0])) == [2]
