import pytest
from emulated_hip import Hip, library_path


def pytest_configure(config):
    config.addinivalue_line("markers", "emu: runs device code in the emulator")
    config.addinivalue_line("markers", "slow: more than a few seconds")


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.emu)


@pytest.fixture(scope="session")
def library():
    if not library_path().exists():
        pytest.skip(f"{library_path()} is not built")
    return Hip()


@pytest.fixture
def hip(library):
    """The library with every checker on and all other knobs at their defaults."""
    library.set()
    yield library
    library.set()
