"""The element types, one row each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """An element type and what the C ABI, Triton, FlyDSL and torch call it."""

    name: str
    bytes: int
    code: int  # aot_dtype in the public header; 0: not a tensor type there
    triton: str
    flydsl: str
    torch: str


DTYPES = {
    d.name: d
    for d in (
        Dtype("f32", 4, 1, "fp32", "Float32", "float32"),
        Dtype("f16", 2, 2, "fp16", "Float16", "float16"),
        Dtype("bf16", 2, 3, "bf16", "BFloat16", "bfloat16"),
        Dtype("i32", 4, 0, "i32", "Int32", "int32"),
        Dtype("i64", 8, 0, "i64", "Int64", "int64"),
    )
}
