"""The rules of the repository that no other tool checks; scripts/check runs this file by itself, too."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import exporter
from exporter.errors import ExitCode
from tools.bill_of_materials import bill_of_materials

LOCKS = ("runtime", "build", "dev")


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def repository_files(root: Path) -> list[Path]:
    """Return every file that is, or would be, in the repository; skip where git cannot say."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so there is no list of the repository's files")
    return [path for name in listed.decode().split("\0") if name and (path := root / name).is_file()]


def pins(root: Path, lock: str) -> dict[str, str]:
    text = (root / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


@functools.cache
def imports_by_package(package: Path) -> dict[str, set[str]]:
    """The other packages that the modules of each package import, keyed by package."""
    names = {path.parent.name for path in package.glob("*/__init__.py")}
    return {
        name: {
            target
            for path in (package / name).rglob("*.py")
            for node in ast.walk(parse(path))
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("exporter.")
            if (target := node.module.split(".")[1]) in names - {name}
        }
        for name in names
    }


@pytest.mark.slow  # parses all the source; scripts/check runs it
def test_packages_import_downwards(project_root: Path) -> None:
    """No package imports one that imports it."""
    imported = imports_by_package(project_root / "exporter")
    # A package that imports none of those that are left is at the bottom.
    while bottom := {name for name, targets in imported.items() if not targets & imported.keys()}:
        imported = {name: targets for name, targets in imported.items() if name not in bottom}

    assert {} == imported


@pytest.mark.slow  # parses all the source; scripts/check runs it
def test_the_run_imports_nothing_that_is_built_around_it(project_root: Path) -> None:
    """The packages that a run needs import no audits, past, simulated networks or servers."""
    imported = imports_by_package(project_root / "exporter")
    around = {"audit", "past", "localnet", "serve", "cli"}

    assert around < imported.keys()
    assert {} == {name: found for name in imported.keys() - around if (found := imported[name] & around)}


@pytest.mark.slow  # parses all the source; scripts/check runs it
def test_tests_keep_their_form(project_root: Path) -> None:
    """Each test has a docstring, in a file that pytest finds; an assertion of equality has a literal on its left."""
    wrong = []
    for path in sorted((project_root / "tests").rglob("*.py")):
        for node in ast.walk(parse(path)):
            match node:
                case ast.FunctionDef(name=name) if name.startswith("test_"):
                    if not path.name.startswith("test_") or not ast.get_docstring(node):
                        wrong.append(f"{path.relative_to(project_root)}::{name}")
                case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                    if is_literal(right) and not is_literal(left):
                        wrong.append(f"{path.relative_to(project_root)}:{node.lineno}")

    assert [] == wrong


def is_literal(node: ast.expr) -> bool:
    """Whether an expression is a constant, or holds constants alone."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def test_every_exit_code_is_documented(project_root: Path) -> None:
    """docs/failures.md has a row for each exit code, with the meaning that the code has everywhere."""
    text = (project_root / "docs" / "failures.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(\d+) \| ([^|;]+?) *(?:;[^|]*)?\|", text.partition("## The drill")[0], flags=re.MULTILINE)

    assert [(str(int(code)), code.meaning) for code in ExitCode] == listed


def test_readme_begins_with_the_two_commands(project_root: Path) -> None:
    """The first thing to copy from the README is the two commands, and both exist."""
    text = (project_root / "README.md").read_text(encoding="utf-8")
    first_block = re.search(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    assert first_block
    commands = [line.split("#")[0].strip() for line in first_block[1].splitlines()]

    assert ["scripts/demo", "scripts/test"] == commands
    assert [True, True] == [(project_root / command).is_file() for command in commands]


def test_changelog_and_package_agree(project_root: Path) -> None:
    """The newest released version of the changelog is the package's version."""
    text = (project_root / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[([^\]]+)\]", text, flags=re.MULTILINE)

    assert ["Unreleased", exporter.__version__] == versions[:2]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_no_address(project_root: Path, lock: str) -> None:
    """Each package in a lock is followed by the SHA-256 of at least one file; no host, file or folder is named."""
    text = (project_root / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    hashed = re.findall(r"^(\S+)==[^\n]+\\\n +--hash=sha256:[0-9a-f]{64}\b", text, flags=re.MULTILINE)

    assert hashed
    assert list(pins(project_root, lock)) == hashed
    assert [] == [line for line in text.splitlines() if re.search(r"://|file:| @ |^-|[\\/]\w", line.rstrip("\\"))]


def test_locks_answer_the_project_file(project_root: Path) -> None:
    """Every dependency of pyproject.toml is pinned, at a version it accepts, in the lock of its purpose."""
    project = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    wanted = {
        "runtime": project["project"]["dependencies"],
        "build": project["build-system"]["requires"] + groups["build"],
        "dev": project["project"]["dependencies"] + [item for item in groups["dev"] if isinstance(item, str)],
    }
    unmet = [
        f"{lock}.lock: {requirement}"
        for lock, requirements in wanted.items()
        for requirement in map(Requirement, requirements)
        if not requirement.specifier.contains(pins(project_root, lock).get(canonicalize_name(requirement.name), "0"))
    ]

    assert [] == unmet


def test_what_locks_pin_is_in_other_lists(project_root: Path) -> None:
    """The development lock pins what the others pin; what runs is a component with its version and a digest."""
    dev, runtime = pins(project_root, "dev"), pins(project_root, "runtime")
    others = runtime | pins(project_root, "build")
    components = bill_of_materials((project_root / "requirements" / "runtime.lock").read_text())["components"]

    assert others == {name: version for name, version in dev.items() if name in others}
    assert runtime == {item["name"]: item["version"] for item in components}
    assert [] == [item["name"] for item in components if not item["hashes"]]


def test_no_path_of_a_machine(project_root: Path) -> None:
    """No file of the repository names a folder of the machine it was written on."""
    machine_path = re.compile(rb"(?:^|[^A-Za-z0-9_.])/(?:home|root|Users|work|tmp)/", flags=re.MULTILINE)
    files = repository_files(project_root)
    found = [
        f"{path.relative_to(project_root)}:{data.count(bytes([10]), 0, match.start()) + 1}"
        for path in files
        for data in [path.read_bytes()]
        if b"\0" not in data[:8000]
        for match in machine_path.finditer(data)
    ]

    assert len(files) > 0
    assert [] == found


def test_scripts_are_runnable(project_root: Path) -> None:
    """Each script can be executed, stops at the first error, and fails on an unset variable."""
    scripts = [path for path in (project_root / "scripts").rglob("*") if path.is_file() and not path.suffix]
    scripts.append(project_root / ".ci" / "run")
    shell_scripts = [path for path in scripts if path.read_bytes().startswith(b"#!/usr/bin/env bash\n")]

    assert [] == [path.name for path in scripts if not path.stat().st_mode & 0o100]
    assert [] == [path.name for path in shell_scripts if b"\nset -euo pipefail\n" not in path.read_bytes()]
    assert {"check", "demo", "lock", "run", "test"} <= {path.name for path in shell_scripts}
