import pytest

from oneballot.room import Room


@pytest.fixture(scope="session")
def room():
    with Room(memory_mb=512, seconds=3) as room:
        yield room
