"""The built wheel, not the source tree: what it holds, and that its command starts, lightly, anywhere."""

from __future__ import annotations

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
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    printed = (result.stdout + result.stderr)[-4_000:]
    assert 0 == result.returncode, f"{command} ended with {result.returncode}\n{printed}"
    return result


@pytest.fixture(scope="module")
def wheel(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source tree by the pinned build backend."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=project_root)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> list[str]:
    """The names of all files in the wheel."""
    with ZipFile(wheel) as archive:
        return archive.namelist()


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


def test_wheel_holds_the_package_and_nothing_else(wheel_names: list[str], project_root: Path) -> None:
    """Each module and each file of site_templates, inside the package, and its metadata; the tests are not in it."""
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


def test_installed_package_is_the_one_that_runs(command: Path, tmp_path: Path) -> None:
    """The environment of these tests imports the package from the wheel, not from the source tree."""
    printed = run(command.parent / "python", "-c", "import exporter; print(exporter.__file__)", cwd=tmp_path).stdout

    assert command.parent.parent in Path(printed.strip()).parents


@pytest.mark.slow
def test_a_type_checker_sees_the_types(command: Path, project_root: Path, tmp_path: Path) -> None:
    """The installed package says that it has types, and mypy holds uses of the public API against them."""
    uses = shutil.copy(project_root / "tests" / "typed_uses.py", tmp_path)
    checker = (sys.executable, "-m", "mypy", "--strict", "--python-executable", command.parent / "python")

    assert "Success" in run(*checker, uses, cwd=tmp_path).stdout


def test_help_from_an_empty_folder(command: Path, tmp_path: Path) -> None:
    """``--version`` prints the version and the format, ``--help`` names the commands; nothing is written there."""
    version, printed = (run(command, option, cwd=tmp_path).stdout for option in ("--version", "--help"))
    listed = set(re.findall(r"^  ([a-z]+) ", printed, flags=re.MULTILINE))

    assert f"exporter {exporter.__version__}, format {FORMAT}\n" == version
    assert {"run", "plan", "demo", "serve", "localnet"} <= listed
    assert [] == list(tmp_path.iterdir())


def test_help_imports_nothing_heavy(command: Path, tmp_path: Path) -> None:
    """``exporter --help`` imports none of the packages that take long to import."""
    report = run(command.parent / "python", "-X", "importtime", command, "--help", cwd=tmp_path).stderr
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in report.splitlines()}

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
