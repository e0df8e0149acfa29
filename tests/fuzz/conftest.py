# pyright: basic
"""The test of the Dask extra is collected where that is installed; else the header of the run says so."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("distributed") else ["test_dask.py"]


def pytest_report_header():
    if collect_ignore:
        return "tests/fuzz/test_dask.py is left out: it needs the extra kubelet-emu[dask]"
    return None
