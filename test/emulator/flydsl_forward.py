"""FlyDSL's attention forward on the emulated device: cases of the benchmark, launched image by image."""

import dataclasses
import functools
import math
import struct

import numpy as np
import torch
from aotattn.backends import flydsl
from aotattn.bench.inputs import draw, store
from aotattn.describe import Variant
from aotattn.kernels import fwd_dual_wave
from aotattn.ops.attn_fwd import HEAD_DIMS
from aotattn.reference import worst
from aotattn.verify import judge_all

FORMATS = {"ptr": "Q", "i64": "q", "i32": "i", "f32": "f"}
LOG2_E = 1.4426950408889634


def variant_of(case, **wanted):
    """The first variant for the case whose config has the wanted values."""
    bucket, bucket_v = (next(d for d in HEAD_DIMS if d >= n) for n in (case.head_dim, case.head_dim_v))
    if fwd_dual_wave.declines("gfx950", {"dtype": case.dtype, "head_dim": bucket, "head_dim_v": bucket_v}):
        bucket = bucket_v = max(bucket, bucket_v)
    padded = (bucket, bucket_v) != (case.head_dim, case.head_dim_v)
    features = {"dtype": case.dtype, "head_dim": bucket, "head_dim_v": bucket_v, "mask": case.mask}
    features["padded_head"] = padded
    configs = fwd_dual_wave.configs("gfx950", features)
    return Variant(fwd_dual_wave, "gfx950", features, next(c for c in configs if wanted.items() <= c.items()))


@functools.cache
def compiled(key):
    """By the variant's key: variants are not hashed by their values."""
    (variant,) = (v for v in fwd_dual_wave.variants("gfx950") if v.key == key)
    return flydsl.compile_variant(variant)


def bits(storage):
    return storage.view(torch.int32 if storage.dtype == torch.float32 else torch.int16)


class Forward:
    """A case and its inputs on the device; what lies between and around their rows is NaN."""

    def __init__(self, hip, case, **config):
        self.hip, self.case = hip, case
        self.tensors = draw(case, "cpu", seed=1)
        self.variant = variant_of(case, **config)
        self.compiled = compiled(self.variant.key)
        self.image = self.compiled.image
        self.upload()

    def upload(self, **views):
        """The inputs once more, after their values have changed, or with other views of their storages."""
        for name, view in views.items():
            self.tensors[name] = dataclasses.replace(self.tensors[name], view=view)
        self.inputs = {name: self.hip.array(bits(self.tensors[name].storage).numpy()) for name in "qkv"}

    def launch(self, image=None):
        """Fresh outputs by name. `image`: in place of the kernel's own."""
        outputs = {n: store(p, "cpu") for n, p in self.case.tensors().items() if n not in self.inputs}
        buffers = {name: self.hip.array(bits(t.storage).numpy()) for name, t in outputs.items()}
        function = self.hip.function(image or self.image, self.compiled.symbol)
        case, block = self.case, self.arguments(self.tensors | outputs, self.inputs | buffers)
        names = dataclasses.asdict(case) | dict(self.variant.config)
        workgroups = eval(fwd_dual_wave.grid[0], {"cdiv": lambda a, b: -(-a // b)}, names)
        self.hip.launch_packed(function, (workgroups, 1, 1), (self.compiled.threads, 1, 1), 0, block)
        for name, tensor in outputs.items():
            bits(tensor.storage).copy_(torch.from_numpy(buffers[name].numpy()))
        return outputs

    def arguments(self, tensors, buffers):
        """The argument block that the recipe describes."""
        case = self.case
        values = dataclasses.asdict(case)
        values["scale_log2"] = float(np.float32(case.sm_scale * LOG2_E))
        values["bottom_right"] = int(case.alignment == "bottom_right")
        for name, buffer in buffers.items():
            tensor = tensors[name]
            values[f"{name}.ptr"] = buffer.pointer + tensor.offset * tensor.storage.element_size()
            values |= {f"{name}.stride.{axis}": stride for axis, stride in enumerate(tensor.view.stride())}
        block = bytearray(self.compiled.argument_bytes)
        for argument in self.compiled.arguments:
            struct.pack_into(f"<{FORMATS[argument.type]}", block, argument.offset, values.get(argument.name, 0))
        return bytes(block)

    def run(self, image=None):
        """out and lse, to compare bit by bit."""
        return [tensor.view for tensor in self.launch(image).values()]

    def check(self, outputs=None):
        """Nothing is written outside the outputs, and they err no more than the plain formula may."""
        outputs = outputs or self.launch()
        assert [name for name, tensor in outputs.items() if tensor.stray_writes()] == []
        figure = worst(judge_all(self.case, self.tensors, {"": [outputs]})[""])
        assert figure.passed, f"{self.case}: {figure.name} {figure.error:.3g}, allowed {figure.allowed:.3g}"
        assert math.isfinite(figure.error)
        return outputs


def growing(hip, powers_a_tile, case, **config):
    """Scores of every second row grow along the keys, by so many powers of two from one 64 to the next; others fall."""
    forward = Forward(hip, case, **config)
    q, k = forward.tensors["q"].view, forward.tensors["k"].view
    q *= 0.2
    q[..., ::2, 0], q[..., 1::2, 0] = 1, -1
    k[..., 0] = torch.arange(case.seqlen_k) * (powers_a_tile * math.log(2) / 64)
    forward.upload()
    return forward
