"""The built wheel, not the source tree: what it holds, and that its command starts, lightly, anywhere."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import exporter
from exporter import FORMAT

# Imported only by the commands that need them, so that the command line answers at once.
HEAVY_PACKAGES = {"httpx", "msgspec", "polars", "pyarrow", "starlette", "stellar_sdk", "uvicorn"}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, bounded in time, and show the end of what it printed if it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    printed = (result.stdout + result.stderr)[-4_000:]
    assert 0 == result.returncode, f"{command} ended with {result.returncode}\n{printed}"
    return result


@pytest.fixture(scope="module")
def wheel(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the pinned build backend from what .dockerignore lets through to the builder of the image."""
    context, built = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("dist")
    for line in (project_root / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            source, target = project_root / line[1:], context / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built, cwd=context)
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``exporter`` command of a new environment that holds the wheel, and otherwise borrows its dependencies."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"),
        *("--no-index", "--no-deps", wheel),
        cwd=environment,
    )
    # A path from a .pth file comes last and its own .pth files are not read, so an editable install of the source
    # tree, which lies there too, stays out of sight.
    (purelib,) = (environment / "lib").glob("python*/site-packages")
    purelib.joinpath("dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
    return environment / "bin" / "exporter"


def test_wheel_holds_the_package_and_nothing_else(wheel: Path, project_root: Path) -> None:
    """Each module and each file of site_templates, inside the package, and its metadata; the tests are not in it."""
    with ZipFile(wheel) as archive:
        wheel_names = archive.namelist()
    templates, package = project_root / "site_templates", project_root / "exporter"
    expected = {
        *(f"exporter/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")),
        *(f"exporter/_site_templates/{path.relative_to(templates)}" for path in templates.rglob("*") if path.is_file()),
    }
    suffixes = (".py", *(name for name in wheel_names if "site_templates" in name))
    tops = {name.split("/")[0] for name in wheel_names}

    assert expected == {name for name in wheel_names if name.endswith(suffixes)}
    assert {"exporter", f"lending_markets_exporter-{exporter.__version__}.dist-info"} == tops
    assert "exporter/py.typed" in wheel_names
    assert [] == [name for name in wheel_names if "tests" in name.split("/")]


@pytest.mark.slow
def test_a_type_checker_sees_the_types(command: Path, project_root: Path, tmp_path: Path) -> None:
    """The installed package says that it has types, and mypy holds uses of the public API against them."""
    uses = shutil.copy(project_root / "tests" / "typed_uses.py", tmp_path)
    checker = (sys.executable, "-m", "mypy", "--strict", "--python-executable", command.parent / "python")

    assert "Success" in run(*checker, uses, cwd=tmp_path).stdout


@pytest.mark.slow
def test_the_command_in_an_empty_folder(command: Path, tmp_path: Path) -> None:
    """The installed command prints its version and format; its help names the commands, and imports nothing heavy."""
    where = run(command.parent / "python", "-c", "import exporter; print(exporter.__file__)", cwd=tmp_path).stdout
    version = run(command, "--version", cwd=tmp_path).stdout
    help_run = run(command.parent / "python", "-X", "importtime", command, "--help", cwd=tmp_path)
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in help_run.stderr.splitlines()}

    assert command.parent.parent in Path(where.strip()).parents  # not that of the source tree
    assert f"exporter {exporter.__version__}, format {FORMAT}\n" == version
    listed = set(re.findall(r"^  ([a-z]+) ", help_run.stdout, flags=re.MULTILINE))
    assert {"run", "plan", "demo", "serve", "localnet"} <= listed
    assert set() == HEAVY_PACKAGES & imported
    assert [] == list(tmp_path.iterdir())


def test_the_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """`exporter --help` is quick, because packages that take long to import are imported by the commands alone."""
    help_run = run(sys.executable, "-X", "importtime", "-m", "exporter", "--help", cwd=tmp_path)
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in help_run.stderr.splitlines()}

    assert "exporter" in imported
    assert set() == HEAVY_PACKAGES & imported


def test_the_description_works_on_a_package_index(project_root: Path) -> None:
    """With the repository's address, every link of the README is absolute, and the package states where it is from."""
    readme = (project_root / "README.md").read_text(encoding="utf-8")
    hook = runpy.run_path(str(project_root / "hatch_build.py"))
    address = {"GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "a/b", "GITHUB_SHA": "c0ffee"}
    text, urls = hook["completed"](readme, address)
    links = re.findall(r"\]\(([^)]*)\)", text)

    assert len(links) > 20
    assert [] == [link for link in links if not link.startswith("https://")]
    assert "(https://git.example/a/b/raw/c0ffee/docs/site.png)" in text
    assert "https://git.example/a/b" == urls["Homepage"]
    assert (readme, {}) == hook["completed"](readme, {})
