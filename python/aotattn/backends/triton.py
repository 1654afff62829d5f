"""Triton and Gluon kernels: compiled for a named target, without a GPU and without a driver.

The argument recipe is read off the device function's `def` line, by name: see recipe.py, and
  q_desc      host TMA descriptor of a tensor: a tensor map, its 32-bit sizes, its 64-bit strides
  BLOCK_M     compile-time constant
Two null pointers (global and profile scratch) end every parameter list.
"""

import contextlib
import dataclasses
import io
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from ..arch import ARCHS
from ..describe import UserError, Variant
from ..dtypes import DTYPES
from ..store import Argument
from . import Compiled, amdgcn, source
from .recipe import SIZES, argument_of, element_of, place

TRITON_TYPES = {"i64": "i64", "i32": "i32", "f32": "fp32"}
# elem_type of the compiler's metadata -> CUtensorMapDataType of the driver
TENSORMAP_DTYPES = {8: 10, 9: 8, 10: 9}
# ptxas: "Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
SERIALISED_WGMMA = re.compile(r"C75\d\d")


def version() -> str:
    import triton

    return f"triton {triton.__version__}"


def _parameters(variant: Variant) -> Iterator[tuple[str, Argument | None, str]]:
    """Each parameter of the device function: its name, its recipe (offset 0; None if constant) and its Triton type."""
    kernel = variant.kernel
    blocks = kernel.descriptors(variant.features, variant.config)
    for name in source.device_function(kernel.source).arg_names:
        tensor, _, what = name.partition("_")
        if name.isupper():
            yield name, None, "constexpr"
        elif what == "desc" and tensor in blocks:
            element = element_of(Argument(f"{tensor}.ptr", "ptr", 0), variant)
            yield name, Argument(tensor, "tensormap", 0), _descriptor_type(element, blocks[tensor])
        else:
            argument = argument_of(name, kernel)
            pointee = argument.type == "ptr" and DTYPES[element_of(argument, variant)].triton
            yield name, argument, f"*{pointee}" if pointee else TRITON_TYPES[argument.type]


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
    parts = (version(), variant.arch, _request(variant))
    return source.compile_key(*parts, source=variant.kernel.source, backend=__file__)


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
    function = source.device_function(variant.kernel.source)
    make_source = GluonASTSource if function.is_gluon() else ASTSource
    traced = make_source(
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
        compiled = triton.compile(traced, target=target, options=request["options"])
    return _describe_image(variant, compiled, log.getvalue())


def _describe_image(variant: Variant, compiled: Any, ptxas_log: str) -> Compiled:
    arch = ARCHS[variant.arch]
    metadata = compiled.metadata
    arguments, size = _place(variant, metadata)
    if arch.platform == "cuda":
        declared, facts = _ptx_parameters(compiled.asm["ptx"]), _ptxas_facts(ptxas_log)
    else:
        declared, facts = amdgcn.parameters(compiled.asm["amdgcn"]), amdgcn.facts(compiled.asm["amdgcn"])
    recipe = [SIZES[a.type][0] for a in arguments]
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
    """Every parameter's place in the argument block."""
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
    placed, end = place([*expanded, Argument("null", "ptr", 0), Argument("null", "ptr", 0)])
    return placed, -(-end // 8) * 8


def _ptx_parameters(ptx: str) -> list[int]:
    """Sizes of the kernel's parameters as the PTX declares them."""
    entry = re.search(r"\.visible \.entry \w+\((.*?)\n\)", ptx, re.DOTALL)
    assert entry, "PTX without an entry"
    sizes = []
    for kind, length in re.findall(r"\.param (?:\.align \d+ )?\.[a-z](\d+)[^,\[\n]*(?:\[(\d+)\])?", entry[1]):
        sizes.append(int(kind) // 8 * int(length or 1))
    return sizes


def _ptxas_facts(log: str) -> dict[str, int]:
    spills = re.findall(r"(\d+) bytes spill stores", log)
    registers = re.findall(r"Used (\d+) registers", log)
    return {"registers": max(map(int, registers), default=0), "spill_bytes": sum(map(int, spills))}
