import pytest

from oneballot.server.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(memory_mb=512, seconds=3) as sandbox:
        yield sandbox


def pytest_generate_tests(metafunc):
    """Run the tests of `HostileModels` for each model of the subclass."""
    for argument, models in (("good_model", "GOOD"), ("hostile_model", "HOSTILE")):
        if argument in metafunc.fixturenames:
            blobs = getattr(metafunc.cls, models)
            metafunc.parametrize(argument, blobs.values(), ids=blobs)
