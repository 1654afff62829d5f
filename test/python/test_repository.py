"""The repository itself: facts written once, nothing of a machine in it, docs that keep up."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from aotattn import runtime
from aotattn.cli import app

REPOSITORY = Path(__file__).resolve().parents[2]
CPP = (".cc", ".h", ".hpp")


def files() -> list[Path]:
    """What is in version control or would be added to it."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in sorted(filter(None, listed.split("\0"))) if (path := REPOSITORY / name).is_file()]


def lines(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Each line of the text files, with its place; all files if no suffix is given."""
    for path in files():
        if suffixes and path.suffix not in suffixes:
            continue
        try:
            content = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(content.splitlines(), start=1):
            yield f"{path.relative_to(REPOSITORY)}:{number}", line


def places(pattern: str, *suffixes: str) -> list[str]:
    return [f"{place}: {line.strip()[:100]}" for place, line in lines(*suffixes) if re.search(pattern, line)]


def project_version() -> str:
    version = re.search(r'^version = "(.+?)"', (REPOSITORY / "pyproject.toml").read_text(), re.M)
    assert version
    return version[1]


def test_version_is_written_once() -> None:
    found = places(rf"(?<![\w.=]){re.escape(project_version())}(?![\w.])", *CPP, ".py", ".txt", ".json", ".toml", ".md")
    assert [place.split(":")[0] for place in found] == ["pyproject.toml"]


def test_library_has_the_projects_version() -> None:
    assert runtime.version() == project_version()


def test_build_information_is_an_object() -> None:
    assert project_version() in json.dumps(runtime.build_info())


def test_no_path_of_a_machine_is_written() -> None:
    roots = "|".join(("work", "root", "home/[a-z]+", "tmp/[a-z]", "Users"))
    assert places(rf"(?<![\w.$}}/~])/(?:{roots})(?:/|\b)") == []


def test_no_registry_is_named() -> None:
    hosts = (r"pypi\.", r"pythonhosted\.", r"download\.pytorch\.", r"deb\.debian\.", r"registry\.npmjs\.")
    assert places(r"(?:https?://|\b)(?:" + "|".join(hosts) + r")(?:org|com|io)") == []


def test_lines_fit() -> None:
    allowed = {".md": 160}  # code: ruff and clang-format judge
    long = [
        f"{place} has {len(line)} columns"
        for suffix, columns in allowed.items()
        for place, line in lines(suffix)
        if len(line) > columns and not line.startswith("|")  # a table's row is one line
    ]
    assert long == []


def test_text_files_end_in_one_newline_and_have_no_trailing_blanks() -> None:
    assert places(r"[ \t]+$", *CPP, ".py", ".md", ".txt", ".toml", ".json") == []
    texts = [p for p in files() if p.suffix in (*CPP, ".py", ".md", ".toml", ".json", ".txt") and p.read_bytes()]
    assert [p.name for p in texts if not p.read_bytes().endswith(b"\n") or p.read_bytes().endswith(b"\n\n")] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path.name}: {target}"
        for path in files()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_command_and_option_is_documented() -> None:
    documented = (REPOSITORY / "docs" / "cli.md").read_text()
    sections = dict(re.findall(r"^## aotattn (\w+)\n(.*?)(?=^## |\Z)", documented, re.M | re.S))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(sections) == sorted(commands)
    missing = [
        f"{name} {option}"
        for name, command in commands.items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help" and f"`{option}" not in sections[name]
    ]
    assert missing == []


def test_the_readmes_c_program_runs(tmp_path: Path) -> None:
    program = re.search(r"```c\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)
    assert program
    (tmp_path / "demo.c").write_text(program[1])
    directory = runtime.library_directory()
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{REPOSITORY / 'include'}"]
    libraries = [f"-L{directory}", "-laotattn", f"-Wl,-rpath,{directory}"]
    subprocess.run(["cc", *options, "demo.c", *libraries, "-o", "demo"], cwd=tmp_path, check=True)
    output = subprocess.run([str(tmp_path / "demo")], capture_output=True, text=True, check=True).stdout
    assert json.loads(output)["status"] == "ok"
