"""Every error that the exporter raises on purpose, the exit code that each ends a command with, and words of messages.

Codes 0, 7 and 9 are outcomes of a finished command, no errors. Messages name the thing that is wrong and say what to
do. No message may carry an endpoint's URL, because it may hold a key; name endpoints by their label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

EXIT_DONE = 0
EXIT_UNEXPECTED = 1
EXIT_CONFIG = 2
EXIT_SOURCE = 3
EXIT_CHECK = 4
EXIT_LOST_RACE = 5
EXIT_PUBLISHED_CHECK = 6
EXIT_UNREAD = 7
EXIT_REFUTED = 8
EXIT_UNPROVEN = 9
EXIT_STORE = 10


class ExporterError(Exception):
    """The root of all errors raised on purpose; ``exit_code`` is what a command ends with."""

    exit_code = EXIT_UNEXPECTED


class ConfigError(ExporterError):
    """A configuration key, flag or argument is not acceptable; the message names it and what is accepted."""

    exit_code = EXIT_CONFIG


class SourceError(ExporterError):
    """The source of the ledger failed; the last published run stays."""

    exit_code = EXIT_SOURCE


class AllEndpointsFailedError(SourceError):
    """Every endpoint failed within the bounds on tries and time; ``answers`` says how each did."""

    def __init__(self, message: str, answers: Sequence[str]) -> None:
        super().__init__(message)
        self.answers = answers


class FormatError(ConfigError):
    """A published tree has another format number than this version of the exporter."""


class NetworkMismatchError(SourceError):
    """An endpoint serves a network whose passphrase is not the configured one."""


class NoCommonLedgerError(SourceError):
    """Within the bounds, no ledger was found at which every entry read is known."""


class SnapshotFileError(SourceError):
    """A ledger snapshot file is missing, malformed, or of an unknown convention."""


class LakeError(SourceError):
    """An object of a ledger lake cannot be fetched, or its ledgers are not what they must be."""


class ArchiveError(SourceError):
    """A history archive cannot be read, or what it holds does not have the digest that it must have."""


class ArchiveFileMissingError(ArchiveError):
    """A history archive has no file of that name: a checkpoint it does not have, or a copy that is not whole."""


class NotNewerError(SourceError):
    """The ledger that was read is not above the one that is already published."""


class DecodeError(ExporterError):
    """Bytes from the ledger are truncated, too long, too deep, or of an unknown kind."""

    exit_code = EXIT_SOURCE


class CheckError(ExporterError):
    """A rendered file does not say what the tables say; the tree is not published."""

    exit_code = EXIT_CHECK


class LostRaceError(ExporterError):
    """Another writer holds the output, or has published since this run began."""

    exit_code = EXIT_LOST_RACE


class PublishedCheckError(ExporterError):
    """The tree was published, but reading it back did not give what was written."""

    exit_code = EXIT_PUBLISHED_CHECK


class RefutedError(ExporterError):
    """The published state differs from what the network's validators signed, or from its own evidence."""

    exit_code = EXIT_REFUTED


class StoreError(ExporterError):
    """A folder or bucket refused an operation, or what is in it is damaged; the message names the key."""

    exit_code = EXIT_STORE


class ImmutableKeyError(StoreError):
    """A key that must never change already holds other bytes."""


class ExactError(ExporterError):
    """Exact arithmetic has no representable result."""


class ExactOverflowError(ExactError):
    """A result does not fit into signed 128 bits."""


class ExactDivisionError(ExactError):
    """A divisor is zero."""


_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def pluralize(number: int, one: str, many: str | None = None) -> str:
    """A number of things: ``1 market``, ``1,234 markets``; ``many`` where it is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def lasting(seconds: int) -> str:
    """A time that is not negative, in its two largest units, cut off: ``16 days 4 hours``, ``1 hour 1 second``."""
    words = []
    for length, unit in _UNITS:
        number, seconds = divmod(seconds, length)
        if number:
            words.append(pluralize(number, unit))
    return " ".join(words[:2]) or "0 seconds"


_WEB_URL: Final = re.compile(r"\b(?P<scheme>https?|wss?):/{1,2}(?P<rest>[^\s'\"<>()]*)", re.IGNORECASE)
_TREE_FILE: Final = re.compile(r"/(?:v1|history|static)/[^?#]*\.(?:json|parquet|html|css|js)(?=[:,;.]*$)")


def without_keys(text: str) -> str:
    """A message with every web URL, which may hold a key, cut down to its host and the tree's file at its end."""

    def shortened(found: re.Match[str]) -> str:
        authority, slash, path = found["rest"].partition("/")
        host = re.split(r"[?#]", authority.rpartition("@")[2], maxsplit=1)[0]
        file = _TREE_FILE.search(slash + path)
        kept = found["rest"][len(found["rest"].rstrip(":,;.")) :]  # punctuation of the sentence
        if file is not None:
            return f"{found['scheme']}://{host}{'/…' if file.start() else ''}{(slash + path)[file.start() :]}"
        shown = "/…" if path.strip("/:,;.") or host != authority else slash
        return f"{found['scheme']}://{host}{shown}{kept if shown else ''}"

    return _WEB_URL.sub(shortened, text)


def printable(text: str) -> str:
    """The text in one line, with every control, format and surrogate character as a space."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
