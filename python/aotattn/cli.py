"""The command `aotattn`: parse, call one function, print.

Results go to stdout, a row a line with --json; progress and seeds to stderr. Exit codes: 0 done, 1 a check failed, 2 a
mistake of the caller, one line on stderr. A command imports torch, triton and sqlite-utils only if it needs them.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import runtime
from .arch import ARCHS
from .bench.cases import INPUTS, LAYOUTS, Case, case_filter
from .bench.sets import SETS, case_set
from .describe import UserError
from .explain import explain_case
from .knobs import KNOBS

if TYPE_CHECKING:
    from rich.progress import Progress

    from .device import Device

CASE_HELP = "A problem, e.g. op=attn_fwd,dtype=bf16,heads_q=8,seqlen_q=1024,head_dim=128,mask=causal"
app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Attention kernels compiled ahead of time.",
    epilog=f"Layouts of a case: {', '.join(LAYOUTS)}. Inputs: {', '.join(INPUTS)}.",
)


def one_of(option: str, allowed: Sequence[str], help: str) -> Any:
    """An option that takes one of a few words."""

    def parse(word: str) -> str:
        if word not in allowed:
            raise UserError(f"{option} {word}: allowed are {', '.join(allowed)}")
        return word

    return typer.Option(option, parser=parse, metavar=f"[{'|'.join(allowed)}]", help=help)


ArchOption = Annotated[str, one_of("--arch", list(ARCHS), help="GPU architecture.")]
DeviceArchOption = Annotated[
    str | None,
    one_of("--arch", list(ARCHS), help="Use the first device of this arch, not the first device."),
]
BackendOption = Annotated[str, typer.Option("--backend", help="Only plans of this backend, e.g. triton.")]
PlanOption = Annotated[str, typer.Option("--plan", help="Only plans backend/kernel/config that start with this.")]
FilterOption = Annotated[
    str, typer.Option("--filter", help="Only cases with these values, e.g. head_dim=128,mask=causal; a|b takes either.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Of the random inputs; a fresh one if left out.")]
CasesArgument = Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help=CASE_HELP)]


@app.command()
def build(
    arch: Annotated[
        list[str] | None,
        one_of("--arch", list(ARCHS), help="GPU architecture; may be repeated. All if left out."),
    ] = None,
    profile: Annotated[str, typer.Option("--profile", help="Which kernels: core or full.")] = "core",
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory of the stores; build/lib/aotattn if left out.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Compiler processes; one a core if left out.")] = None,
    filter: Annotated[str, typer.Option("--filter", help="Only variants with these values, e.g. dtype=bf16.")] = "",
) -> None:
    """Compile the kernels and write the kernel stores and the tuning database."""
    from .build import build as build_stores

    with progress_bar("images") as bar:
        task = bar.add_task("images", total=None)
        reports = build_stores(
            arch or list(ARCHS),
            profile=profile,
            out=out,
            jobs=jobs,
            filters=dict(pair(part) for part in filter.split(",") if part),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    for report in reports:
        print(report.text())


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--filter: {text!r} is no name=value")
    return name.strip(), value.strip()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def explain(
    context: typer.Context,
    arch: ArchOption,
    case: Annotated[str, typer.Argument(metavar="CASE", help=f"{CASE_HELP} Or --head-dim 128 and so on.")] = "",
    plan: PlanOption = "",
    compute_units: Annotated[int, typer.Option("--compute-units", help="Of the device; 0: what the arch has.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say which plan a problem gets on an arch and why, without a GPU."""
    answer = explain_case(Case.parse(case_line([case, *context.args])), arch, compute_units, plan)
    if as_json:
        print(json.dumps(answer))
        return
    steps = [{"kernel": s["kernel"], "backend": s["backend"], "config": s["config"]} for s in answer["plan"]]
    print(f"{answer['case']} on {arch}: {answer['status']}{': ' if answer['reason'] else ''}{answer['reason'] or ''}")
    if steps:
        print_table(steps)
        print(f"provenance: {answer['provenance']}")
    chosen = next((c for c in answer["candidates"] if not c["refused"]), None)
    for candidate in (c for c in answer["candidates"] if c is not chosen):
        print(f"{'refused' if candidate['refused'] else 'next'}: {candidate['plan']}{_because(candidate['refused'])}")
    for kernel, reason in answer["declined"].items():
        print(f"declined: {kernel}{_because(reason)}")


def case_line(words: Sequence[str]) -> str:
    """The text form of a case out of its parts, which may be spelled `--head-dim 128`."""
    rest = iter(words)
    parts = [f"{w[2:].replace('-', '_')}={next(rest, '')}" if w.startswith("--") else w for w in rest]
    return ",".join(filter(None, parts))


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


@app.command()
def verify(
    arch: DeviceArchOption = None,
    backend: BackendOption = "",
    op: Annotated[str, one_of("--op", list(runtime.OPERATORS), help="Operator.")] = "attn_fwd",
    plan: PlanOption = "",
    filter: FilterOption = "",
    cases: Annotated[str, one_of("--cases", list(SETS), help="Set of cases.")] = "quick",
    seed: SeedOption = None,
    allow_unsupported: Annotated[
        bool, typer.Option("--allow-unsupported", help="A case that no kernel takes is no failure: for partial builds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run cases on a device under every plan that takes them and compare with float64. Exit 0: some ran, all passed."""
    from .device import open_device
    from .verify import verify as verify_cases

    wanted = case_filter(filter)
    chosen = [c for c in case_set(cases) if c.op == op and wanted(c)]
    device = open_device(arch)
    options = {"backend": backend, "plan": plan, "required": not (backend or plan or allow_unsupported)}
    counts = {True: 0, False: 0, None: 0}
    words = {True: "passed", False: "FAILED", None: "skipped"}
    seen: set[Case] = set()
    with progress_bar("cases") as bar:
        task = bar.add_task("cases", total=len(chosen))
        for result in verify_cases(chosen, device, seed=fresh_seed(seed), **options):  # type: ignore[arg-type]
            counts[result.passed] += 1
            seen.add(result.case)
            bar.update(task, completed=len(seen))
            if as_json:
                print(json.dumps(result.row()), flush=True)
            elif not result.passed:
                figure = f"{result.check} {result.error:.3g}, allowed {result.allowed:.3g} " if result.check else ""
                print(f"{words[result.passed]} {result.case} {result.plan} {figure}{result.reason}", flush=True)
    total = ", ".join(f"{counts[passed]} {word}" for passed, word in words.items())
    say(f"{device.name} ({device.arch}): {len(seen)} of {len(chosen)} cases; {total}", result=not as_json)
    if counts[False] or not counts[True]:
        raise typer.Exit(1)


@app.command()
def bench(
    cases: CasesArgument = None,
    against: Annotated[str, one_of("--against", ["torch"], help="Whose backends to compare with.")] = "torch",
    host: Annotated[bool, typer.Option("--host", help="Measure what a call costs the host instead.")] = False,
    plans: Annotated[bool, typer.Option("--plans", help="Time every plan that takes a case instead.")] = False,
    record: Annotated[
        Path | None, typer.Option("--record", help="With --plans: merge the times into the rows of this directory.")
    ] = None,
    plan: PlanOption = "",
    arch: DeviceArchOption = None,
    filter: FilterOption = "",
    case_set_name: Annotated[str, one_of("--cases", list(SETS), help="Set of cases where none is given.")] = "speed",
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure on a GPU: against PyTorch's attention backends, in turn in one run; or each plan; or the host's cost."""
    from .device import open_device

    if record and not plans:
        raise UserError("--record needs --plans")
    wanted = case_filter(filter)
    chosen = [c for c in ([Case.parse(c) for c in cases] if cases else case_set(case_set_name)) if wanted(c)]
    device = open_device(arch)
    if device.compute == "cpu":
        raise UserError(f"{device.name} has no clock to measure with; bench needs a GPU that torch can use")
    if host:
        from .bench.host import host as host_costs

        emit(host_costs(device), as_json)
    elif plans:
        bench_plans(chosen, device, fresh_seed(seed), plan, record, as_json)
    else:
        bench_against(chosen, device, fresh_seed(seed), as_json)


def bench_against(cases: Sequence[Case], device: "Device", seed: int, as_json: bool) -> None:
    from .bench.against import PEERS, against_torch, geomeans

    measured = []
    for rows in tracked(against_torch(cases, device, seed), len(cases)):
        measured.append(rows)
        if rows and rows[0].side in PEERS:
            print(f"aotattn does not serve {rows[0].case}", file=sys.stderr)
        emit((row.row() for row in rows), as_json)
    emit(geomeans(measured), as_json)


def bench_plans(
    cases: Sequence[Case], device: "Device", seed: int, plan: str, directory: Path | None, as_json: bool
) -> None:
    from .bench.plans import record, time_plans

    revision = f"{runtime.version()} {runtime.build_info()['revision']}"
    for timed in tracked(time_plans(cases, device, seed=seed, plan=plan), len(cases)):
        emit((row.row() for row in timed), as_json)
        if directory and timed:
            record(directory, device, timed, revision)


@app.command()
def profile(
    cases: Annotated[list[str], typer.Argument(metavar="CASE...", help=CASE_HELP)],
    arch: DeviceArchOption = None,
    plan: PlanOption = "",
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run cases on the emulator, each under its chosen plan: what was counted, and modelled cycles. No measurement."""
    from .bench.profile import profile as profile_case
    from .bench.profile import table
    from .device import open_device

    chosen = [Case.parse(c) for c in cases]
    device = open_device(arch)
    drawn_from = fresh_seed(seed)
    for case in chosen:
        row = profile_case(case, device, seed=drawn_from, plan=plan)
        if as_json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{row['case']}\n{row['plan']} on {row['device']}: {row['note']}")
            print_table(table(row))


@app.command()
def knobs(as_json: JsonOption = False) -> None:
    """Print the environment variables that the library reads."""
    rows = [{"name": k.name, "default": k.default, "meaning": k.meaning} for k in KNOBS.values()]
    if as_json:
        emit(rows, as_json)
    else:
        print_table(rows)


def emit(rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows as they come: JSON objects, or `name value` pairs on a line."""
    for row in rows:
        line = json.dumps(row) if as_json else "  ".join(f"{n} {v}" for n, v in row.items() if v not in (None, ""))
        print(line, flush=True)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], box=None)
    for row in rows:
        table.add_row(*map(str, row.values()))
    width = None if sys.stdout.isatty() else 1000  # a file takes lines of any length
    Console(width=width).print(table, markup=False)


def progress_bar(unit: str) -> "AbstractContextManager[Progress]":
    """A bar with rate and time left on stderr; nothing where stderr is no terminal."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            return Text(f"{task.speed:.1f} a second" if task.speed else "")

    console = Console(stderr=True)
    return progress.Progress(
        *(progress.TextColumn(unit), progress.BarColumn(), progress.MofNCompleteColumn()),
        *(Rate(), progress.TimeElapsedColumn(), progress.TimeRemainingColumn()),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,
    )


def tracked(results: Iterable[list[Any]], total: int) -> Iterable[list[Any]]:
    with progress_bar("cases") as bar:
        task = bar.add_task("cases", total=total)
        for result in results:
            bar.advance(task)
            yield result


def fresh_seed(seed: int | None) -> int:
    """The seed given, else a new one; said on stderr so that a run can be repeated."""
    import secrets

    chosen = secrets.randbits(31) if seed is None else seed
    print(f"seed {chosen}", file=sys.stderr)
    return chosen


def say(line: str, *, result: bool) -> None:
    print(line, file=sys.stdout if result else sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        app(args=None if arguments is None else list(arguments))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except (UserError, runtime.AotError) as error:
        print(f"aotattn: {error}", file=sys.stderr)
        return 2
    return 0
