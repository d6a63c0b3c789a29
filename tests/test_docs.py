"""The documentation says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec

from exporter.config import ACCEPTED, ENVIRONMENT, Settings, load
from exporter.past.archive.trusted_organisations import checker_digests
from tests import checker_digests as digests
from tests import cli_reference, columns_reference, messages_reference, protocols_reference

DOCS = Path(__file__).parent.parent / "docs"


def rows(text: str, heading: str) -> dict[str, str]:
    """The two columns of the table under a heading."""
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    return {key: value.strip() for key, value in re.findall(r"^`([^`]+)` \| (.*)$", section, re.MULTILINE)}


def test_every_page_begins_with_what_its_reader_can_do() -> None:
    """Each page says in its first sentence what one can do, or knows, after reading it."""
    pages = [*DOCS.rglob("*.md"), *(DOCS.parent / name for name in ("CHANGELOG.md", "SECURITY.md"))]

    assert len(pages) > 30
    assert [] == [page.name for page in pages if "\n\nAfter reading this page you " not in page.read_text()[:120]]


def test_every_key_is_documented() -> None:
    """The table of keys has every key and says what error messages say."""
    assert ACCEPTED == rows((DOCS / "configuration.md").read_text(), "Keys")


def test_every_environment_variable_is_documented() -> None:
    """The table of variables has every variable and its key."""
    documented = rows((DOCS / "configuration.md").read_text(), "Environment")

    assert ENVIRONMENT == {variable: key.strip("`") for variable, key in documented.items()}


def test_the_example_holds_the_defaults(tmp_path: Path) -> None:
    """The example file is accepted, and apart from the endpoint it says what is the case without it."""
    example = (DOCS / "configuration.md").read_text().split("```toml\n")[1].split("```")[0]
    path = tmp_path / "example.toml"
    path.write_text(re.sub(r"^rpc_urls.*$", "", example, flags=re.MULTILINE))

    assert Settings() == load(path, environment={}).settings
    assert set(tomllib.loads(example)) == set(msgspec.to_builtins(Settings())) - {"markets"}


def test_protocols_reference() -> None:
    """docs/protocols.md says what the modules and lists say; scripts/docs writes it."""
    assert protocols_reference.render() == (DOCS / "protocols.md").read_text()


def test_cli_reference() -> None:
    """docs/cli.md is the help of every command, as `scripts/docs` writes it."""
    assert cli_reference.render() == (DOCS / "cli.md").read_text()


def test_messages_reference() -> None:
    """docs/messages.txt has the warnings and notices as the code words them; scripts/docs writes it."""
    assert messages_reference.render() == (DOCS / "messages.txt").read_text()


def test_columns_reference() -> None:
    """The table in docs/history.md is that of the columns; scripts/docs writes it."""
    page = (DOCS / "history.md").read_text()

    assert columns_reference.written(page) == page


def test_the_digests_of_the_verifier() -> None:
    """The page of proofs has the digests of the program and of its lists; scripts/docs writes them."""
    page = (DOCS / "proofs.md").read_text()

    assert ["stellar_proof.py", "trusted/mainnet.json", "trusted/testnet.json"] == list(checker_digests())
    assert digests.written(page) == page
    for digest in checker_digests().values():
        assert digest in page
