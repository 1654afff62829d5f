"""Device code: loaded from its file, and what an image of it depends on."""

import ast
import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ..describe import UserError

REPOSITORY = Path(__file__).resolve().parents[3]


@cache
def device_function(source: str) -> Any:
    """What "tritonsrc/attn_fwd.py:attn_fwd" names."""
    file, _, name = source.partition(":")
    path = REPOSITORY / file
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # device files import their own folder
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"kernel source {file} is not there")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def compile_key(*parts: object, source: str, backend: str) -> str:
    """A digest of all that an image depends on: the parts, the code of the kernel, the code of the backend's module."""
    files = (REPOSITORY / source.partition(":")[0], Path(backend))
    return hashlib.sha256("\n".join((*map(str, parts), source, *map(_code_digest, files))).encode()).hexdigest()


@cache
def _code_digest(path: Path) -> str:
    """Of the code, comments apart, of a file and the files of its folder that it imports."""
    tree = ast.parse(path.read_text())
    digest = hashlib.sha256(ast.dump(tree).encode())
    for statement in tree.body:
        match statement:
            case ast.ImportFrom(module=str(name), level=0 | 1):
                names = [name]
            case ast.Import(names=aliases) | ast.ImportFrom(module=None, level=1, names=aliases):
                names = [alias.name for alias in aliases]
            case _:
                continue
        for imported in (path.parent / f"{name}.py" for name in names):
            if imported.is_file():
                digest.update(_code_digest(imported).encode())
    return digest.hexdigest()
