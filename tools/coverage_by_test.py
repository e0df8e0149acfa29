"""A pytest plugin that gives each test a coverage context of its own, named by its id.

::

    coverage run --source-pkgs=kubelet_emu --data-file=cov.db -m pytest -p tools.coverage_by_test
"""

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Called by pytest around each test with its fixtures."""
    current = coverage.Coverage.current()
    if current is not None:
        current.switch_context(item.nodeid)
    result = yield
    if current is not None:
        current.switch_context("")
    return result
