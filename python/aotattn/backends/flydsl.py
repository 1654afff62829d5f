"""FlyDSL kernels: traced and lowered by FlyDSL, assembled and linked by Triton's LLVM. Needs no GPU and no ROCm.

A kernel's source names a function that takes the constants, spelled in upper case, and returns the device function. The
argument recipe is read off that function's `def` line, by name: see recipe.py.
"""

import contextlib
import inspect
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..arch import ARCHS
from ..describe import UserError, Variant
from ..dtypes import DTYPES
from ..store import Argument
from . import Compiled, amdgcn, source
from .recipe import SIZES, argument_of, element_of, place

FORMATS = {"Pointer": "ptr", "Int64": "i64", "Int32": "i32", "Float32": "f32"}  # annotation -> argument type
# A maximum of numbers needs no NaN; infinities stay what they are.
FAST_MATH = "nnan,nsz,arcp,contract,afn,reassoc"
# Instructions on packed f32 wait for the matrix unit, plain ones run beside it.
LLVM_OPTIONS = {"vectorize-slp": False}


def version() -> str:
    """Raises UserError where FlyDSL is not installed."""
    from importlib import metadata

    try:
        return f"flydsl {metadata.version('flydsl')}"
    except metadata.PackageNotFoundError:
        raise UserError("kernels for gfx950 need FlyDSL to be compiled: pip install flydsl==0.5.0") from None


def _constants(variant: Variant) -> dict[str, Any]:
    known = variant.kernel.constants(variant.features, variant.config)
    return {name.upper(): value for name, value in known.items()}


def _request(variant: Variant) -> tuple[object, ...]:
    """All that the image depends on, apart from the source's text and the compiler."""
    return _constants(variant), variant.kernel.hints(variant), variant.kernel.options(variant)


def compile_key(variant: Variant) -> str:
    """Two variants of one key have the same image, so one compile serves both."""
    from . import triton

    parts = (version(), triton.version(), variant.arch, *_request(variant))
    return source.compile_key(*parts, source=variant.kernel.source, backend=__file__)


def compile_variant(variant: Variant) -> Compiled:
    """Compile one variant in this process. Raises UserError for a description that does not fit the compiler."""
    assembly, image = compile_function(variant)
    arguments, end = place(_arguments(variant))
    lds_bytes = amdgcn.static_lds_bytes(assembly)
    facts = {**amdgcn.facts(assembly), "shared_bytes": lds_bytes, "image_bytes": len(image)}
    recipe = [SIZES[a.type][0] for a in arguments]
    refused = []
    if (declared := amdgcn.parameters(assembly)) != recipe:
        refused.append(f"the compiler declares parameters of {declared} bytes, the recipe has {recipe}")
    if lds_bytes > (limit := ARCHS[variant.arch].lds_bytes):
        refused.append(f"{lds_bytes} bytes of shared memory, {variant.arch} has {limit}")
    if facts["spill_bytes"]:
        refused.append(f"spills {facts['spill_bytes']} bytes")
    if str(source.REPOSITORY).encode() in image:
        refused.append("a path of this machine is in the image")
    return Compiled(
        image=image,
        symbol=variant.kernel.name,
        threads=_options(variant)["num_warps"] * ARCHS[variant.arch].wave_size,
        shared_bytes=0,  # static, the image says how much
        cluster=1,
        argument_bytes=-(-end // 16) * 16,  # scalar loads are as wide as 16 bytes
        arguments=arguments,
        facts=facts,
        refused=tuple(refused),
    )


def _options(variant: Variant) -> dict[str, int]:
    options = {name: int(value) for name, value in variant.kernel.options(variant).items()}
    if options.keys() != {"num_warps", "waves_per_eu"}:
        raise UserError(f"{variant.kernel.name}: flydsl takes the options num_warps and waves_per_eu, not {options}")
    return options


def _arguments(variant: Variant) -> Iterator[Argument]:
    """The recipe of each parameter, in order, checked against its annotation."""
    function = source.device_function(variant.kernel.source)(**_constants(variant))
    for name, parameter in inspect.signature(function).parameters.items():
        argument = argument_of(name, variant.kernel)
        annotation = getattr(parameter.annotation, "__name__", str(parameter.annotation))
        if FORMATS.get(annotation) != argument.type:
            raise UserError(f"{variant.kernel.source}: parameter {name} is {argument.type}, not {annotation}")
        yield argument


def compile_function(variant: Variant) -> tuple[str, bytes]:
    """Assembly text and code object."""
    os.environ |= {"FLYDSL_GPU_ARCH": variant.arch, "FLYDSL_RUNTIME_ENABLE_CACHE": "0"}
    for name in ("COMPILE_ONLY", "ARCH", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO"):
        os.environ.pop(name, None)
    import flydsl.compiler as flyc

    flyc.register_backend("rocm", _lowering_backend(), force=True)
    function = source.device_function(variant.kernel.source)(**_constants(variant))
    kernel = flyc.kernel(function, name=variant.kernel.name)
    options = _options(variant)
    threads = options["num_warps"] * ARCHS[variant.arch].wave_size

    def launch(**arguments: Any) -> None:
        attributes = {"rocdl.waves_per_eu": options["waves_per_eu"]}
        kernel(**arguments, value_attrs=attributes).launch(grid=(1, 1, 1), block=(threads,))

    launcher = flyc.jit(launch)
    launcher.func.__signature__ = inspect.signature(function)  # the parameters are written once
    compiled = flyc.compile[{"fastmath": FAST_MATH}](launcher, *_placeholders(variant))
    assembly = _assembly(compiled._keepalive.ir)  # the lowered module, the one private name that is needed
    return assembly, _link(assembly, variant.arch)


def _placeholders(variant: Variant) -> Iterator[Any]:
    """A value of the right type for each parameter."""
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    hints = variant.kernel.hints(variant)
    for argument in _arguments(variant):
        if argument.type == "ptr":
            element = DTYPES[element_of(argument, variant)]
            align = hints.get(argument.name.replace(".", "_"), {}).get("divisibility", element.bytes)
            yield flyc.from_c_void_p(getattr(fx, element.flydsl), None, assumed_align=align)
        else:
            yield 0.0 if argument.type == "f32" else 0


def _lowering_backend() -> type:
    from flydsl.compiler.backends.rocm import RocmBackend

    class Lowering(RocmBackend):  # type: ignore[misc]
        """FlyDSL's passes without the last one, which makes a binary and needs ROCm's linker."""

        def pipeline_fragments(self, *, compile_hints: Any) -> Any:
            *lowering, last = super().pipeline_fragments(compile_hints=compile_hints)
            assert last.startswith("gpu-module-to-binary"), last
            return lowering

    return Lowering


def _assembly(lowered: str) -> str:
    """Generate code for a lowered module. Raises UserError with what the compiler prints: it does not raise itself."""
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import gpu
    from flydsl._mlir.passmanager import PassManager
    from flydsl.compiler.llvm_options import llvm_options

    with ir.Context() as context, ir.Location.unknown(), llvm_options(LLVM_OPTIONS):
        context.enable_multithreading(False)
        context.load_all_available_dialects()
        module = ir.Module.parse(lowered)
        with _printed() as printed:
            PassManager.parse("builtin.module(gpu-module-to-binary{format=isa})").run(module.operation)
        if errors := [line for line in printed if "error:" in line]:
            raise UserError("; ".join(errors))
        (binary,) = [op for op in module.body.operations if op.operation.name == "gpu.binary"]
        return bytes(gpu.ObjectAttr(binary.operation.attributes["objects"][0]).object).decode()


@contextlib.contextmanager
def _printed() -> Iterator[list[str]]:
    """The lines that native code prints to stderr inside, once it is left."""
    lines: list[str] = []
    kept = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            log.seek(0)
            lines += log.read().decode(errors="replace").splitlines()


def _link(assembly: str, arch: str) -> bytes:
    from triton._C.libtriton import amd
    from triton.backends.amd.compiler import assemble_amdgcn

    with tempfile.TemporaryDirectory() as scratch:
        unlinked, linked = Path(scratch, "kernel.o"), Path(scratch, "kernel.hsaco")
        unlinked.write_bytes(assemble_amdgcn(assembly, arch, ""))
        amd.link_hsaco(str(unlinked), str(linked))
        return linked.read_bytes()
