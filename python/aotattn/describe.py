"""The vocabulary of descriptions: what an operator takes, which kernels compute it, which variants there are.

A description is a value. The build, the store, the tuner, the command line and the docs read it; it knows none of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Value = str | int | bool
Values = Mapping[str, Value]


class UserError(Exception):
    """The caller's mistake, in one sentence: what was asked, why not, what would work."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument; `axes` names its sizes, outermost first, and `dtype` is a dtype or a feature's name."""

    name: str
    dtype: str
    axes: str
    optional: bool = False

    @property
    def rank(self) -> int:
        return len(self.axes.split())


@dataclass(frozen=True)
class Scalar:
    """A number given at run time."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Choice:
    """A named value out of a few."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Operator:
    """An operator of the C ABI.

    args      in the order of the public struct
    derived   integers and floats that the runtime computes from the arguments; recipes may use them
    features  what changes the result and is fixed when a kernel is compiled
    """

    name: str
    args: tuple[Tensor | Scalar | Choice, ...]
    derived: tuple[Scalar, ...]
    features: tuple[Choice, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(a for a in self.args if isinstance(a, Tensor))

    def vocabulary(self) -> dict[str, str]:
        """Every name that an argument, grid or `requires` recipe may use, with its type."""
        names: dict[str, str] = {}
        for t in self.tensors:
            names[f"{t.name}.ptr"] = "ptr"
            names[f"{t.name}.bytes"] = "i64"  # from the first element to the end of the last
            names |= {f"{t.name}.{what}.{axis}": "i64" for axis in range(t.rank) for what in ("size", "stride")}
            names |= dict.fromkeys(t.axes.split(), "i64")
        names |= {a.name: a.dtype for a in (*self.args, *self.derived) if isinstance(a, Scalar)}
        return names

    def functionals(self) -> Iterator[dict[str, Value]]:
        """Every assignment of the features."""
        rows: list[dict[str, Value]] = [{}]
        for feature in self.features:
            rows = [{**row, feature.name: value} for row in rows for value in feature.values]
        return iter(rows)


def text(values: Values) -> str:
    """The one text form of named values, `dtype=bf16,head_dim=128,padded_head=0`: store key, log line and filter."""
    return ",".join(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in values.items())


@dataclass(frozen=True)
class Requirement:
    """An expression over the vocabulary and the config that must hold at run time, and the reason it stands for."""

    holds: str
    reason: str


@dataclass(frozen=True)
class Workspace:
    """Device memory that a plan needs during the call; recipes name it `workspace.<name>.ptr`."""

    name: str
    bytes: str  # an expression
    dtype: str = "i32"
    zeroed: bool = False


@dataclass(frozen=True)
class Kernel:
    """A way to compute an operator (or a step of it): one device function, described.

    source       "file:function", relative to the repository
    configs      arch, functional -> configs, the best guess first; a config changes speed only
    declines     arch, functional -> the reason why this kernel does not compute it, or None
    constants    functional, config -> the device function's compile-time constants
    grid         expressions for x, y, z over the vocabulary and the config
    options      variant -> options of the compiler
    requires     variant -> what must hold of a problem at run time
    hints        variant -> parameter name -> what the compiler may assume, e.g. {"q_ptr": {"divisibility": 16}}
    descriptors  functional, config -> tensor name -> block shape of its host TMA descriptor
    workspace    what a launch needs
    """

    name: str
    operator: Operator
    backend: str
    source: str
    configs: Callable[[str, Values], Sequence[Values]]
    declines: Callable[[str, Values], str | None]
    constants: Callable[[Values, Values], Values]
    grid: tuple[str, str, str]
    options: Callable[["Variant"], Values]
    requires: Callable[["Variant"], Sequence[Requirement]] = lambda _: ()
    hints: Callable[["Variant"], Mapping[str, Mapping[str, int]]] = lambda _: {}
    descriptors: Callable[[Values, Values], Mapping[str, tuple[int, ...]]] = lambda _f, _c: {}
    workspace: tuple[Workspace, ...] = ()

    def variants(self, arch: str) -> Iterator["Variant"]:
        """The compile matrix on `arch`, in the default order of preference within a functional."""
        for functional in self.operator.functionals():
            if self.declines(arch, functional) is None:
                for config in self.configs(arch, functional):
                    yield Variant(self, arch, functional, config)


@dataclass(frozen=True)
class Variant:
    """One kernel on one arch with every feature and config value chosen: one image."""

    kernel: Kernel
    arch: str
    features: Values = field(hash=False)
    config: Values = field(hash=False)

    def __getitem__(self, name: str) -> Value:
        return self.features[name] if name in self.features else self.config[name]

    @property
    def key(self) -> str:
        return f"{self.arch}/{self.kernel.operator.name}/{self.kernel.name}/{text(self.features)},{text(self.config)}"
