"""Writes the recording of the package; `tools.recording` says from what."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from exporter.errors import ExporterError
from exporter.localnet.recording import FOLDER, TOKENS_FILE, Recording
from exporter.protocols import PROTOCOLS
from tools.recording.parts import RecordedPart, deployments_file, recording_of, recording_of_tokens

PACKAGE = Path(__file__).parents[2] / "exporter"
RECORDED = PACKAGE / "localnet" / FOLDER
LISTS = PACKAGE / "deployments" / "local"
DATA = PACKAGE.parents[1] / "shared" / "data"


def comes_from_code(protocol: str) -> bool:
    """Whether a protocol has a module here that makes its parts from code alone."""
    name = f"tools.recording.{protocol}"
    return find_spec(name) is not None and hasattr(import_module(name), "made")


def parts_of(protocol: str, folder: Path) -> list[RecordedPart]:
    """The parts of a protocol, from its module. Raises `click.ClickException` if something is missing."""
    name = f"tools.recording.{protocol}"
    if find_spec(name) is None:
        raise click.ClickException(
            f"tools/recording/{protocol}.py is missing: write it (docs/adding-a-protocol.md, 4. The recording)"
        )
    module = import_module(name)
    if comes_from_code(protocol):
        made: list[RecordedPart] = module.made()
        return made
    try:
        parts: list[RecordedPart] = module.parts(folder)
    except (OSError, ExporterError) as error:
        raise click.ClickException(
            f"{protocol} comes from data that is not here ({error}): name the folder with --data, "
            "or name the protocols that come from code"
        ) from error
    return parts


def write(protocol: str, parts: list[RecordedPart]) -> None:
    """Write a protocol's file of the recording, and the list of its deployments."""
    _write_recording(protocol, recording_of(parts))
    LISTS.joinpath(f"{protocol}.toml").write_text(deployments_file(protocol, parts), encoding="utf-8")


def _write_recording(name: str, recording: Recording) -> None:
    RECORDED.joinpath(f"{name}.bin").write_bytes(recording.packed())


@click.command()
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL]...", type=click.Choice(list(PROTOCOLS)))
@click.option("--data", type=click.Path(path_type=Path), default=DATA, help="The folder above the real data.")
def main(protocols: tuple[str, ...], data: Path) -> None:
    """Write the recording of these protocols, or of all, and the list of their deployments."""
    made = {protocol: parts_of(protocol, data) for protocol in protocols or PROTOCOLS}
    for protocol, parts in made.items():
        write(protocol, parts)
        click.echo(f"{protocol}: {sum(len(part.entries) for part in parts)} entries")
    if not protocols:
        _write_recording(TOKENS_FILE, recording_of_tokens())


if __name__ == "__main__":
    main()
