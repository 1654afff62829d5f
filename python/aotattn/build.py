"""Ahead-of-time build: the compile matrix, compiled in parallel and incrementally, packed into one store an arch.

Each image is compiled in a process of its own, so that a compiler that dies or hangs costs one variant and is reported
with its key. An image is compiled again only if its source, constants, options, target or compiler changed.
"""

import base64
import dataclasses
import json
import multiprocessing
import os
import subprocess
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from .arch import ARCHS
from .backends import Compiled, flydsl, triton
from .describe import UserError, Value, Variant, text
from .expressions import postfix
from .kernels import KERNELS, PROFILES
from .store import Argument, Image, StoredKernel, StoredPlan, store_path, write_store

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / "build" / "images"
BACKENDS = {"flydsl": flydsl, "triton": triton}
TIME_LIMIT_S = 600
SPILLS_SHOWN = 5
Keyed = tuple[str, Variant]  # a variant behind its compile key


@dataclass(frozen=True)
class StoreReport:
    """What a build did for one arch."""

    path: Path
    plans: int
    images: int
    compiled: int
    image_bytes: int
    spilling: Mapping[str, int]  # key of a variant of each image that spills -> bytes
    seconds: float

    def text(self) -> str:
        sizes = f"{self.path.stat().st_size / 1e6:.1f} MB from {self.image_bytes / 1e6:.1f} MB"
        images = f"{self.images} images ({self.compiled} compiled now)"
        lines = [f"{self.path.name}: {self.plans} plans, {images}, {sizes}, {self.seconds:.0f} s"]
        worst = sorted(self.spilling.items(), key=lambda item: -item[1])
        lines += [f"  spills {size} bytes: {key}" for key, size in worst[:SPILLS_SHOWN]]
        if len(worst) > SPILLS_SHOWN:
            lines.append(f"  and {len(worst) - SPILLS_SHOWN} more images spill less")
        return "\n".join(lines)


def build(
    archs: Sequence[str],
    *,
    profile: str = "core",
    out: Path | None = None,
    jobs: int | None = None,
    filters: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[StoreReport]:
    """Compile the profile's variants for each arch and write `aotattn-<arch>.db` and `tuning.db` to `out`.

    filters   feature or config name -> the value that a variant must have, e.g. {"dtype": "bf16"}
    progress  is told how many images of how many are there
    Raises UserError naming every variant that did not compile or must not ship; the old stores are left then.
    """
    if unknown := [arch for arch in archs if arch not in ARCHS]:
        raise UserError(f"unknown arch {', '.join(unknown)}; known are {', '.join(ARCHS)}")
    if profile not in PROFILES:
        raise UserError(f"unknown profile {profile}; known are {', '.join(PROFILES)}")
    out = out or REPOSITORY / "build" / "lib" / "aotattn"
    out.mkdir(parents=True, exist_ok=True)
    matrix = {arch: select(arch, profile, filters or {}) for arch in archs}
    if empty := [arch for arch, variants in matrix.items() if not variants]:
        raise UserError(
            f"profile {profile} with {text(filters or {}) or 'no filter'} has no variant on {', '.join(empty)}"
        )
    started = monotonic()
    keyed = {arch: [(BACKENDS[v.kernel.backend].compile_key(v), v) for v in matrix[arch]] for arch in archs}
    fresh = _compile_missing([pair for pairs in keyed.values() for pair in pairs], jobs, progress)
    reports = [_pack(arch, pairs, out, fresh, started) for arch, pairs in keyed.items()]
    from .tuning.compose import compose

    compose(REPOSITORY / "tuning_db", out / "tuning.db")
    return reports


def select(arch: str, profile: str, filters: Mapping[str, str]) -> list[Variant]:
    """The variants to build, in the stores' default order."""

    def wanted(v: Variant) -> bool:
        values = {**v.features, **v.config}
        return PROFILES[profile](v) and all(text({n: values.get(n, "")}) == f"{n}={w}" for n, w in filters.items())

    return [v for kernel in KERNELS.values() for v in kernel.variants(arch) if wanted(v)]


def _compile_missing(keyed: Iterable[Keyed], jobs: int | None, progress: Callable[[int, int], None]) -> set[str]:
    """Compile what the cache lacks; returns the keys compiled."""
    by_key = dict(keyed)
    missing = {key: v for key, v in by_key.items() if not _cached(v.arch, key).is_file()}
    progress(len(by_key) - len(missing), len(by_key))
    failures: list[str] = []
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:  # a thread waits for each process
        futures = [pool.submit(_compile_apart, v, _cached(v.arch, key)) for key, v in missing.items()]
        for done, future in enumerate(as_completed(futures), start=len(by_key) - len(missing) + 1):
            if failure := future.result():
                failures.append(failure)
            progress(done, len(by_key))
    if failures:
        raise UserError(f"{len(failures)} of {len(by_key)} images failed\n" + "\n".join(sorted(failures)))
    return set(missing)


def _cached(arch: str, key: str) -> Path:
    return CACHE / arch / f"{key}.json"


def _compile_apart(variant: Variant, path: Path) -> str | None:
    """Compile in a process of its own; returns what went wrong, or None."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["triton.compiler", "flydsl.compiler", "aotattn.build"])
    receive, send = context.Pipe(duplex=False)
    place = (variant.kernel.name, variant.arch, dict(variant.features), dict(variant.config))
    process = context.Process(target=_compile_child, args=(*place, path, send), daemon=True)
    process.start()
    send.close()
    try:
        ended = receive.poll(TIME_LIMIT_S)
        message: str | None = receive.recv() if ended else f"{variant.key}: no end after {TIME_LIMIT_S} s"
    except EOFError:
        process.join()
        message = f"{variant.key}: the compiler died with exit code {process.exitcode}"
    process.join(5)
    process.kill()
    process.join()
    return message


def _compile_child(
    name: str, arch: str, features: dict[str, Value], config: dict[str, Value], path: Path, send: Any
) -> None:
    send.send(compile_to(Variant(KERNELS[name], arch, features, config), path))


def compile_to(variant: Variant, path: Path) -> str | None:
    """Compile in this process and write the image to the cache; returns what went wrong, or None."""
    try:
        compiled = BACKENDS[variant.kernel.backend].compile_variant(variant)
    except UserError as error:
        return f"{variant.key}: {error}"
    except Exception:  # whatever the compiler raises, the build reports it and goes on
        return f"{variant.key}: {traceback.format_exc()}"
    if compiled.refused:
        return f"{variant.key}: {'; '.join(compiled.refused)}"
    _write_cached(path, compiled)
    return None


def _write_cached(path: Path, compiled: Compiled) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    row = dataclasses.asdict(compiled) | {"image": base64.b64encode(compiled.image).decode()}
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(row))
    os.replace(part, path)


def read_cached(path: Path) -> Compiled:
    row = json.loads(path.read_text())
    arguments = tuple(Argument(**{**a, "tensormap": tuple(a["tensormap"])}) for a in row["arguments"])
    return Compiled(
        **{**row, "image": base64.b64decode(row["image"]), "arguments": arguments, "refused": tuple(row["refused"])}
    )


def _pack(arch: str, keyed: Sequence[Keyed], out: Path, fresh: set[str], started: float) -> StoreReport:
    plans: list[StoredPlan] = []
    compiled: dict[str, Compiled] = {}
    spilling: dict[str, int] = {}
    for key, v in keyed:
        if key not in compiled:
            compiled[key] = read_cached(_cached(arch, key))
            if spilled := compiled[key].facts["spill_bytes"]:
                spilling[v.key] = spilled
        plans.append(plan_of(v, compiled[key]))
    path = store_path(out, arch)
    write_store(path, plans, _meta(arch, sorted({v.kernel.backend for _, v in keyed})))
    return StoreReport(
        path=path,
        plans=len(plans),
        images=len(compiled),
        compiled=len(fresh & compiled.keys()),
        image_bytes=sum(len(c.image) for c in compiled.values()),
        spilling=spilling,
        seconds=monotonic() - started,
    )


def plan_of(variant: Variant, compiled: Compiled) -> StoredPlan:
    """The store row of a one-step plan."""
    kernel = variant.kernel
    vocabulary = kernel.operator.vocabulary()
    x, y, z = (postfix(axis, vocabulary, variant.config) for axis in kernel.grid)
    image = {f.name: getattr(compiled, f.name) for f in dataclasses.fields(Image)}
    step = StoredKernel(**image, name=kernel.name, grid=(x, y, z))
    return StoredPlan(
        operator=kernel.operator.name,
        features=text(variant.features),
        backend=kernel.backend,
        kernel=kernel.name,
        config=text(variant.config),
        requirements=tuple(
            f"{postfix(r.holds, vocabulary, variant.config)}\t{r.reason}" for r in kernel.requires(variant)
        ),
        workspace=tuple(
            f"{w.name} {int(w.zeroed)} {postfix(w.bytes, vocabulary, variant.config)}" for w in kernel.workspace
        ),
        steps=(step,),
    )


def _meta(arch: str, backends: Sequence[str]) -> dict[str, str]:
    from .runtime import version

    git = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "arch": arch,
        "compute_units": str(ARCHS[arch].compute_units),
        "library_version": version(),
        "source_revision": git.stdout.strip() or "unknown",
        "compilers": ", ".join(BACKENDS[name].version() for name in backends),
    }
