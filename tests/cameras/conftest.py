import pytest

from tests.cameras import bench


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    while bench.opened:
        bench.opened.pop().close()
