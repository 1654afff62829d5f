"""Triton and Gluon kernels: compiled for a named target, without a GPU and without a driver.

The argument recipe is read off the device function's `def` line, by name:
  q_ptr q_stride_1 q_size_2    pointer, 64-bit stride, 64-bit size of a tensor of the operator
  q_desc                       host TMA descriptor of a tensor: a tensor map, its 32-bit sizes, its 64-bit strides
  counter_ptr                  workspace `counter`, if the kernel has one of that name
  seqlen_q scale_log2          a name of the operator's vocabulary; integers are passed as 32 bits
  BLOCK_M                      compile-time constant
Two null pointers (global and profile scratch) end every parameter list.
"""

import ast
import contextlib
import dataclasses
import hashlib
import importlib.util
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..arch import ARCHS
from ..describe import UserError, Variant
from ..dtypes import DTYPES
from ..store import Argument
from . import Compiled

REPOSITORY = Path(__file__).resolve().parents[3]
SIZES = {"ptr": 8, "i64": 8, "i32": 4, "f32": 4}
TRITON_TYPES = {"i64": "i64", "i32": "i32", "f32": "fp32"}
TENSORMAP_BYTES = 128  # CUtensorMap, aligned to 64
# elem_type of the compiler's metadata -> CUtensorMapDataType of the driver
TENSORMAP_DTYPES = {8: 10, 9: 8, 10: 9}
# ptxas: "Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
SERIALISED_WGMMA = re.compile(r"C75\d\d")


def version() -> str:
    import triton

    return f"triton {triton.__version__}"


@cache
def _device_function(source: str) -> Any:
    """The jit function behind "tritonsrc/attn_fwd.py:attn_fwd"."""
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


@cache
def _source_digest(path: Path) -> str:
    """Of the code, comments apart, of a file and the files of its folder that it imports."""
    code = path.read_text()
    digest = hashlib.sha256(ast.dump(ast.parse(code)).encode())
    for name in re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE):
        if (path.parent / f"{name}.py").is_file():
            digest.update(_source_digest(path.parent / f"{name}.py").encode())
    return digest.hexdigest()


def _parameters(variant: Variant) -> Iterator[tuple[str, Argument | None, str]]:
    """Each parameter of the device function: its name, its recipe (offset 0; None if constant) and its Triton type."""
    kernel = variant.kernel
    vocabulary = kernel.operator.vocabulary()
    tensors = {t.name: t for t in kernel.operator.tensors}
    workspaces = {w.name: w for w in kernel.workspace}
    blocks = kernel.descriptors(variant.features, variant.config)
    for name in _device_function(kernel.source).arg_names:
        base, _, what = name.partition("_")
        if name.isupper():
            yield name, None, "constexpr"
        elif base in tensors and what == "ptr":
            yield name, Argument(f"{base}.ptr", "ptr", 0), f"*{DTYPES[_dtype(tensors[base].dtype, variant)].triton}"
        elif base in workspaces and what == "ptr":
            yield name, Argument(f"workspace.{base}.ptr", "ptr", 0), f"*{DTYPES[workspaces[base].dtype].triton}"
        elif base in tensors and what == "desc":
            yield (
                name,
                Argument(base, "tensormap", 0),
                _descriptor_type(_dtype(tensors[base].dtype, variant), blocks[base]),
            )
        elif base in tensors and (dotted := f"{base}.{what.replace('_', '.')}") in vocabulary:
            yield name, Argument(dotted, "i64", 0), "i64"
        elif name in vocabulary:
            kind = "f32" if vocabulary[name] == "f32" else "i32"
            yield name, Argument(name, kind, 0), TRITON_TYPES[kind]
        else:
            raise UserError(f"{kernel.source}: parameter {name} is in no vocabulary of {kernel.operator.name}")


def _dtype(dtype: str, variant: Variant) -> str:
    return dtype if dtype in DTYPES else str(variant.features[dtype])


def _descriptor_type(dtype: str, block: tuple[int, ...]) -> str:
    from triton.experimental.gluon import language as gl

    element = {"f16": gl.float16, "bf16": gl.bfloat16, "f32": gl.float32}[dtype]
    layout = gl.NVMMASharedLayout.get_default_for(list(block), element)
    return f"tensordesc<{DTYPES[dtype].triton}[{','.join(map(str, block))}],{layout!r}>"


def _request(variant: Variant) -> dict[str, Any]:
    """All that the image depends on, apart from the source's text and the compiler."""
    parameters = list(_parameters(variant))
    names = [name for name, _, _ in parameters]
    hints = variant.kernel.hints(variant)
    known = variant.kernel.constants(variant.features, variant.config)
    return {
        "signature": {name: kind for name, _, kind in parameters},
        "constants": {name: known[name.lower()] for name, _, kind in parameters if kind == "constexpr"},
        "attrs": {
            (names.index(name),): [[f"tt.{hint}", value] for hint, value in hints[name].items()]
            for name in names
            if name in hints
        },
        "options": {"enable_fp_fusion": True, **variant.kernel.options(variant)},
    }


def compile_key(variant: Variant) -> str:
    """Two variants of one key have the same image, so one compile serves both."""
    source = REPOSITORY / variant.kernel.source.partition(":")[0]
    parts = (version(), variant.arch, variant.kernel.source, _source_digest(source), repr(_request(variant)))
    return hashlib.sha256("\n".join((*parts, _source_digest(Path(__file__)))).encode()).hexdigest()


def compile_variant(variant: Variant) -> Compiled:
    """Compile one variant in this process. Raises UserError for a description that does not fit the compiler."""
    os.environ |= {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend
    from triton.experimental.gluon._runtime import GluonASTSource

    arch = ARCHS[variant.arch]
    target = GPUTarget(
        arch.platform, int(arch.name.removeprefix("sm_")) if arch.platform == "cuda" else arch.name, arch.wave_size
    )
    request = _request(variant)
    known = {f.name for f in dataclasses.fields(type(make_backend(target).parse_options({})))}
    if unknown := request["options"].keys() - known:
        raise UserError(f"the compiler for {arch.name} has no option {', '.join(sorted(unknown))}")
    function = _device_function(variant.kernel.source)
    make_source = GluonASTSource if function.is_gluon() else ASTSource
    source = make_source(
        fn=function, signature=request["signature"], constexprs=request["constants"], attrs=request["attrs"]
    )
    log = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as scratch,
        triton.knobs.cache.scope(),
        triton.knobs.nvidia.scope(),
        contextlib.redirect_stdout(log),
    ):
        triton.knobs.cache.dir = scratch  # the build has its own cache, keyed by all that matters
        triton.knobs.nvidia.dump_ptxas_log = True
        compiled = triton.compile(source, target=target, options=request["options"])
    return _describe_image(variant, compiled, log.getvalue())


def _describe_image(variant: Variant, compiled: Any, ptxas_log: str) -> Compiled:
    arch = ARCHS[variant.arch]
    metadata = compiled.metadata
    arguments, size = _place(variant, metadata)
    if arch.platform == "cuda":
        declared, facts = _ptx_parameters(compiled.asm["ptx"]), _ptxas_facts(ptxas_log)
    else:
        declared, facts = _hip_parameters(compiled.asm["amdgcn"]), _hip_facts(compiled.asm["amdgcn"])
    recipe = [_bytes(a) for a in arguments]
    refused = []
    if not compiled.asm[arch.image_format]:
        refused.append("the image is empty")
    if declared != recipe:
        refused.append(f"the compiler declares parameters of {declared} bytes, the recipe has {recipe}")
    if metadata.shared > arch.lds_bytes:
        refused.append(f"{metadata.shared} bytes of shared memory, {arch.name} has {arch.lds_bytes}")
    if metadata.global_scratch_size or metadata.profile_scratch_size:
        refused.append("it wants a scratch buffer in global memory, which the launcher does not give")
    if arch.platform == "cuda":
        refused += [f"ptxas: {line}" for line in ptxas_log.splitlines() if SERIALISED_WGMMA.search(line)]
        wide = variant.features["dtype"] != "f32" and int(variant.config["block_m"]) >= 64  # wgmma has 64 rows
        if wide and "wgmma" not in compiled.asm["ptx"]:
            refused.append("no wgmma instruction in the code")
    return Compiled(
        image=compiled.asm[arch.image_format],
        symbol=metadata.name,
        threads=metadata.num_warps * arch.wave_size,
        shared_bytes=metadata.shared,
        cluster=metadata.num_ctas,
        argument_bytes=size,
        arguments=arguments,
        facts={**facts, "shared_bytes": metadata.shared, "image_bytes": len(compiled.asm[arch.image_format])},
        refused=tuple(refused),
    )


def _place(variant: Variant, metadata: Any) -> tuple[tuple[Argument, ...], int]:
    """Give every parameter its place in the argument block: natural alignment, tensor maps at multiples of 64."""
    maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
    expanded: list[Argument] = []
    for _, argument, _ in _parameters(variant):
        if argument is None:
            continue
        if argument.type != "tensormap":
            expanded.append(argument)
            continue
        meta = next(maps)
        box = tuple(meta["block_size"])
        name = argument.name
        facts = (TENSORMAP_DTYPES.get(meta["elem_type"], meta["elem_type"]), meta["swizzle"], *box)
        expanded.append(dataclasses.replace(argument, tensormap=facts))
        expanded += [Argument(f"{name}.size.{axis}", "i32", 0) for axis in range(len(box))]
        expanded += [Argument(f"{name}.stride.{axis}", "i64", 0) for axis in range(len(box))]
    expanded += [Argument("null", "ptr", 0)] * 2
    placed, end = [], 0
    for argument in expanded:
        align = 64 if argument.type == "tensormap" else _bytes(argument)
        offset = -(-end // align) * align
        placed.append(dataclasses.replace(argument, offset=offset))
        end = offset + _bytes(argument)
    return tuple(placed), -(-end // 8) * 8


def _bytes(argument: Argument) -> int:
    return TENSORMAP_BYTES if argument.type == "tensormap" else SIZES[argument.type]


def _ptx_parameters(ptx: str) -> list[int]:
    """Sizes of the kernel's parameters as the PTX declares them."""
    entry = re.search(r"\.visible \.entry \w+\((.*?)\n\)", ptx, re.DOTALL)
    assert entry, "PTX without an entry"
    sizes = []
    for kind, length in re.findall(r"\.param (?:\.align \d+ )?\.[a-z](\d+)[^,\[\n]*(?:\[(\d+)\])?", entry[1]):
        sizes.append(int(kind) // 8 * int(length or 1))
    return sizes


def _hip_parameters(amdgcn: str) -> list[int]:
    """Sizes of the kernel's arguments as the code object's metadata declares them; -1 for a hidden one."""
    arguments = re.findall(r"\.size:\s+(\d+)\s+\.value_kind:\s+(\w+)", amdgcn)
    return [-1 if kind.startswith("hidden") else int(size) for size, kind in arguments]


def _ptxas_facts(log: str) -> dict[str, int]:
    spills = re.findall(r"(\d+) bytes spill stores", log)
    registers = re.findall(r"Used (\d+) registers", log)
    return {"registers": max(map(int, registers), default=0), "spill_bytes": sum(map(int, spills))}


def _hip_facts(amdgcn: str) -> dict[str, int]:
    def fact(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", amdgcn)
        return int(found[1]) if found else 0

    scratch = max(4 * fact("vgpr_spill_count"), fact("private_segment_fixed_size"))
    return {"registers": fact("vgpr_count"), "spill_bytes": scratch}
