"""Device files without a compiler: those of plain index arithmetic, loaded as they are."""

import importlib.util
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "kernels" / "attention"


def load_device_file(name: str) -> ModuleType:
    """A fresh module from kernels/attention/`name`.py."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
