import pytest

from oneballot.server.sandbox import Sandbox


@pytest.fixture(scope="session")
def room():
    with Sandbox(memory_mb=512, seconds=3) as room:
        yield room
