"""What several of these tests need."""

import ctypes

import pytest
from aotattn import runtime
from aotattn.describe import UserError


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The C library, built."""
    try:
        return runtime.library()
    except UserError as error:
        pytest.fail(str(error))  # says "run make build"
