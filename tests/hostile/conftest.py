import pytest

from oneballot.server.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(memory_mb=512, seconds=3) as sandbox:
        yield sandbox
