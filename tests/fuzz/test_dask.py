# pyright: basic
"""A search spread over a Dask cluster finds what one process finds."""

import dask.distributed as distributed
import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.fuzz.campaign import Campaign
from kubelet_emu.fuzz.hunt import Limits, hunt

CAMPAIGN = Campaign(seed=4, faults="light")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_local_cluster_comes_to_the_same():
    """Two worker processes are started; what Dask itself warns of is not ours."""
    limits = Limits(examples=60)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        spread = hunt(CAMPAIGN, limits, jobs=2, scheduler=cluster.scheduler_address)
    alone = hunt(CAMPAIGN, limits)
    assert spread.tally == alone.tally
    assert spread.found == alone.found


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_no_scheduler_is_told():
    """Dask waits ten seconds for one."""
    with pytest.raises(CallerError) as raised:
        hunt(CAMPAIGN, Limits(examples=1), scheduler="tcp://127.0.0.1:1")
    assert "no scheduler answers" in str(raised.value.problems[0])
