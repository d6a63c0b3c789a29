"""Every error that the exporter raises on purpose, the exit codes of all commands, and helpers for messages.

A message names what is wrong and says what to do. It must not have an endpoint's URL, which may contain a key;
endpoints are named by their labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

_OLDER = "The last published run is unchanged, and gets older."


class ExitCode(IntEnum):
    """How a command ends. Help texts, summaries, alarms and docs/failures.md take their words from here.

    ``scripts/alarm`` reads this file with the Python of a machine that has nothing installed, so it imports nothing
    but the standard library.

    Attributes:
        meaning: what happened.
        situation: what readers have now, for somebody whom an alarm calls. None if nobody has to do anything.
        is_published: whether a run that ends with this code has published its tree.
    """

    meaning: str
    situation: str | None
    is_published: bool

    def __new__(cls, code: int, meaning: str, situation: str | None, is_published: bool = False) -> ExitCode:
        self = int.__new__(cls, code)
        self._value_ = code
        self.meaning, self.situation, self.is_published = meaning, situation, is_published
        return self

    DONE = 0, "published, or nothing to do", None, True
    UNEXPECTED = 1, "failed unexpectedly: a bug, or stopped from outside", _OLDER
    CONFIG = 2, "the command or the configuration is not accepted, or the tree has another format", _OLDER
    SOURCE = 3, "the source failed, lags, or is older than what is published", _OLDER
    CHECK = 4, "the rendered tree failed its checks and was not published", _OLDER
    LOST_RACE = 5, "another writer won", None
    PUBLISHED_CHECK = (
        6,
        "published, but what was read back is not what was written, or the history is damaged",
        "The newest run is published, and so are those after it. Files of the history are damaged or missing, or the "
        "run could not be read back as it was written. Until that is mended nothing is compacted or removed.",
        True,
    )
    UNREAD = (
        7,
        "published, but not everything could be read or priced",
        "The newest run is published. Some pool or market in it could not be read, or prices are missing; the status "
        "document names them, with the reason.",
        True,
    )
    REFUTED = (
        8,
        "what is published is not what the network's validators signed",
        "The evidence of a published run is not the state of the network: its RPC lied. Stop the schedule.",
    )
    UNPROVEN = 9, "not contradicted, but not all of it is proven", None, True
    STORE = 10, "the output refuses a write, or is damaged", _OLDER


class ExporterError(Exception):
    """The base of all errors that are raised on purpose. ``exit_code`` is the code with which a command ends."""

    exit_code: ExitCode = ExitCode.UNEXPECTED


class ConfigError(ExporterError):
    """A configuration key, flag or argument is not valid. The message names it and what is accepted."""

    exit_code = ExitCode.CONFIG


class SourceError(ExporterError):
    """The source of the ledger failed. The last published run stays."""

    exit_code = ExitCode.SOURCE


class AllEndpointsFailedError(SourceError):
    """Every endpoint failed within the bounds on tries and time. ``answers`` says how each one did."""

    def __init__(self, message: str, answers: Sequence[str]) -> None:
        super().__init__(message)
        self.answers = answers


class FormatError(ConfigError):
    """A published tree has another format number than this version of the exporter."""


class NetworkMismatchError(SourceError):
    """An endpoint serves a network whose passphrase is not the configured one."""


class NothingPublishedError(SourceError):
    """There is no status document where a published tree was expected, so there is no run to judge."""


class NoCommonLedgerError(SourceError):
    """Within the bounds there was no ledger at which everything that was read is known to hold."""


class NoRoomError(SourceError):
    """An unlisted market has more pools than the budget of unlisted markets has room for."""


class WorkerDiedError(SourceError):
    """The workers are gone, or one died over its work again and again. Finished work is kept."""


class SnapshotFileError(SourceError):
    """A ledger snapshot file is missing, malformed, or of an unknown convention."""


class LakeError(SourceError):
    """An object of a ledger lake cannot be fetched, or its ledgers are not what they must be."""


class ArchiveError(SourceError):
    """A history archive cannot be read, or a file in it does not have the digest that it must have."""


class ArchiveFileMissingError(ArchiveError):
    """A history archive lacks a file, because it does not have the checkpoint, or is an incomplete copy."""


class NotNewerError(SourceError):
    """The ledger that was read is not newer than the published one."""


class DecodeError(ExporterError):
    """Bytes from the ledger are truncated, too long, too deep, or of an unknown kind."""

    exit_code = ExitCode.SOURCE


NEVER_CONTAINED = (SourceError, MemoryError)
"""Errors that end a run wherever they happen, because without the source or memory nothing else can be read either."""

MAX_ERROR_TEXT = 300
"""The status and the report show at most this many characters of an error."""


def error_text(error: Exception) -> str:
    """The text of an error in the status and the report. An unforeseen error has its type, too."""
    text = str(error) if isinstance(error, DecodeError) else f"the reader failed: {type(error).__name__}: {error}"
    return text if len(text) <= MAX_ERROR_TEXT else text[: MAX_ERROR_TEXT - 1] + "…"


class Barrier:
    """Contains a failure of the block inside it, also an unforeseen one. Only errors of `NEVER_CONTAINED` pass.

        with Barrier() as barrier:
            return decode(entry)
        return missing(barrier.failure)

    Attributes:
        failure: the `error_text` of what failed; empty if nothing did.
    """

    def __init__(self, record: Callable[[str], object] | None = None) -> None:
        self.failure = ""
        self._record = record

    def __enter__(self) -> Barrier:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception) or isinstance(error, NEVER_CONTAINED):
            return False
        self.failure = error_text(error)
        if self._record is not None:
            self._record(self.failure)
        return True


class CheckError(ExporterError):
    """A rendered file does not say what the tables say. The tree is not published."""

    exit_code = ExitCode.CHECK


class LostRaceError(ExporterError):
    """Another writer holds the output, or has published since this run began."""

    exit_code = ExitCode.LOST_RACE


class PublishedCheckError(ExporterError):
    """The tree was published, but reading it back did not give what was written."""

    exit_code = ExitCode.PUBLISHED_CHECK


class RefutedError(ExporterError):
    """The published state differs from what the network's validators signed, or from its own evidence."""

    exit_code = ExitCode.REFUTED


class StoreError(ExporterError):
    """A folder or bucket refused an operation, or is damaged. The message names the key."""

    exit_code = ExitCode.STORE


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
    """A number of things: ``1 market``, ``1,234 markets``. ``many`` is the plural if it is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def lasting(seconds: int) -> str:
    """A duration in words, in its two largest units, rounded down: ``16 days 4 hours``, ``1 hour 1 second``."""
    words = []
    for length, unit in _UNITS:
        number, seconds = divmod(seconds, length)
        if number:
            words.append(pluralize(number, unit))
    return " ".join(words[:2]) or "0 seconds"


_WEB_URL: Final = re.compile(r"\b(?P<scheme>https?|wss?):/{1,2}(?P<rest>[^\s'\"<>()]*)", re.IGNORECASE)
_TREE_FILE: Final = re.compile(r"/(?:v1|history|static)/[^?#]*\.(?:json|parquet|html|css|js)(?=[:,;.]*$)")


def without_keys(text: str) -> str:
    """The message with every web URL cut down to its host and, if it ends with a tree's file, that file.

    A URL may contain a key.
    """

    def shortened(url: re.Match[str]) -> str:
        authority, slash, path = url["rest"].partition("/")
        host = re.split(r"[?#]", authority.rpartition("@")[2], maxsplit=1)[0]
        file = _TREE_FILE.search(slash + path)
        punctuation = url["rest"][len(url["rest"].rstrip(":,;.")) :]  # it belongs to the sentence
        if file is not None:
            return f"{url['scheme']}://{host}{'/…' if file.start() else ''}{(slash + path)[file.start() :]}"
        rest = "/…" if path.strip("/:,;.") or host != authority else slash
        return f"{url['scheme']}://{host}{rest}{punctuation if rest else ''}"

    return _WEB_URL.sub(shortened, text)


def printable(text: str) -> str:
    """The text in one line, in which every control, format and surrogate character is a space."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
