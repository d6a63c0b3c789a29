"""Rendering the rules: what they hold, what they must not hold, and that every platform takes them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from exporter.cli import main
from exporter.config import OutputSettings, Settings
from exporter.errors import ConfigError
from exporter.serve.edge import MAX_FUNCTION_BYTES, Platform, either_form, first_value, integers, render_edge
from exporter.tree.routes import MAX_LIMIT
from tests.serve.edge.nginx_server import free_port, nginx_or_skip, write_rule


def with_sizes(*sizes: int) -> Settings:
    """Settings with other page sizes; the last one is the default."""
    return Settings(output=OutputSettings(page_sizes=sizes, default_page_size=sizes[-1]))


def render(platform: Platform, settings: Settings | None = None, root: str | None = None) -> dict[str, str]:
    """Render a rule with the default settings."""
    return render_edge(platform, settings or Settings(), root=root, origin=None)


@pytest.mark.parametrize("name", ["function.js", "missing.js"])
def test_functions_keep_within_the_limits_of_the_platform(name: str) -> None:
    """A CloudFront function is below 10,240 bytes, and uses nothing that the runtime forbids."""
    source = render("cloudfront")[name]
    code = re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE)
    code = re.sub(r"<!doctype html>.*</main>", "", code)  # the text of the page that is sent

    assert len(source.encode()) < MAX_FUNCTION_BYTES
    words = (
        "import require fetch XMLHttpRequest eval Function( setTimeout setInterval Date Math.random process async await"
    )
    for forbidden in (*words.split(), "Promise", "console"):
        assert not re.search(rf"(?<![\w'-]){re.escape(forbidden)}(?![\w-])", code), forbidden
    # Newer syntax than the runtime is known to have.
    assert [] == re.findall(r"\?\.|\?\?|\.\.\.[\w\[]|=>|`|\bclass\b|\(\?<", code)


def test_the_largest_configuration_still_fits() -> None:
    """A function with many sizes fits; if there are too many, the error says so."""
    assert len(render("cloudfront", with_sizes(*range(1, 81)))["function.js"].encode()) < MAX_FUNCTION_BYTES
    with pytest.raises(ConfigError, match="number of sizes"):
        render("cloudfront", with_sizes(*range(1, 1001)))


@pytest.mark.parametrize("platform", get_args(Platform))
def test_rules_hold_the_configured_sizes(platform: Platform) -> None:
    """Other sizes make another rule, and the same sizes the same bytes."""
    rendered = render(platform, with_sizes(1, 3, 70))

    assert rendered == render(platform, with_sizes(1, 3, 70))
    text = "".join(rendered.values())
    assert "limit/70" in text or "[1,3,70]" in text
    assert render(platform) != rendered


@pytest.mark.parametrize(
    ("platform", "options", "expected"),
    [
        ("cloudfront", {"root": "/srv"}, "--root is for nginx only"),
        ("nginx", {"origin": "https://tree.example"}, "--origin is for cloudflare only"),
        ("nginx", {"root": '/srv/"x'}, "nginx cannot serve"),
        ("nginx", {"root": "/srv/$x"}, "nginx cannot serve"),
        ("cloudflare", {"origin": "ftp://tree.example"}, "must be an http"),
        ("cloudflare", {"origin": "https://tree.example/?a=1"}, "without a query"),
        ("cloudflare", {"origin": "https://me:secret@tree.example"}, "no user or password"),
    ],
)
def test_options_that_do_not_fit_are_refused(platform: Platform, options: dict[str, str], expected: str) -> None:
    """An option for another platform, and a value that its configuration cannot hold, are named without secrets."""
    with pytest.raises(ConfigError, match=re.escape(expected)) as caught:
        render_edge(platform, Settings(), root=options.get("root"), origin=options.get("origin"))

    assert "secret" not in str(caught.value)


def test_nginx_needs_a_folder() -> None:
    """If the output is a bucket, the folder has to be named."""
    settings = Settings(output=OutputSettings(uri="s3://bucket/tree"))

    with pytest.raises(ConfigError, match="--root"):
        render("nginx", settings)
    assert 'root "/srv/tree";' in render("nginx", settings, root="/srv/tree")["nginx-server.conf"]
    absolute = render("nginx", Settings(output=OutputSettings(uri="file:///srv/other")))["nginx-server.conf"]
    assert 'root "/srv/other";' in absolute


def test_the_command_writes_the_files_and_says_which(tmp_path: Path) -> None:
    """The command writes the files with the sizes of the configuration, and says which."""
    config = tmp_path / "exporter.toml"
    config.write_text("[output]\npage_sizes = [1, 30]\ndefault_page_size = 30\n")
    for platform in get_args(Platform):
        out = tmp_path / platform
        result = CliRunner().invoke(main, ["edge", platform, "--config", str(config), "--out", str(out)])

        assert 0 == result.exit_code, result.output
        assert sorted(map(str, out.iterdir())) == sorted(result.output.split())
    assert "var SIZES = [1,30];" in (tmp_path / "cloudflare" / "worker.js").read_text()
    refused = CliRunner().invoke(main, ["edge", "nginx", "--out", str(config / "x")])
    assert (True, True) == (refused.exit_code != 0, "cannot write into" in refused.output)


@pytest.mark.parametrize("sizes", [(1,), (1, 7, 33, 10_000), tuple(range(1, 60))])
def test_nginx_accepts_the_configuration(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Nginx -t is content with the rule, without a warning, for few and for many sizes."""
    program = nginx_or_skip()
    path = write_rule(tmp_path, tmp_path / "a folder", with_sizes(*sizes), free_port())
    command = [program, "-t", "-e", "stderr", "-p", str(tmp_path), "-c", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert 0 == result.returncode, result.stderr
    assert "warn" not in result.stderr


@given(st.integers(1, MAX_LIMIT), st.integers(1, MAX_LIMIT), st.integers(1, MAX_LIMIT), st.integers(0, 3))
def test_ranges_of_numbers(low: int, high: int, number: int, zeros: int) -> None:
    """The expression for a range matches its numbers and no others, with leading zeros and encoded digits too."""
    low, high = sorted((low, high))
    pattern = re.compile(integers(low, high))
    for tried in (number, low, high, low - 1, high + 1):
        text = "0" * zeros + str(tried)
        encoded = "".join(f"%3{digit}" for digit in text)
        assert (low <= tried <= high) == (pattern.fullmatch(text) is not None)
        assert (low <= tried <= high) == (pattern.fullmatch(encoded) is not None)


def test_names_match_in_every_form() -> None:
    """A name matches plain, encoded and mixed, in either case of the digits, and nothing else."""
    pattern = re.compile(either_form("limit"))

    assert all(pattern.fullmatch(text) for text in ("limit", "l%69mit", "%6cimit", "%6Cimit", "%6C%69%6D%69%74"))
    assert not any(pattern.fullmatch(text) for text in ("Limit", "%4Cimit", "l%6it", "limit%", "limi"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("limit=5", "5"),
        ("a=b&limit=5&limit=6", "5"),
        ("limit=&limit=6", None),
        ("limit&limit=6", None),
        ("xlimit=5", None),
    ],
)
def test_the_first_occurrence_counts_even_an_empty_one(query: str, expected: str | None) -> None:
    """The first occurrence counts, even an empty one."""
    match = re.search(first_value("limit"), query)

    assert expected == (match and match[1])
