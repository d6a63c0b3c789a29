"""The facts of a run report, by their names in the JSON file."""

from __future__ import annotations

from typing import TypedDict

from exporter.publishing.published_state import PublishedTimes

JsonObject = dict[str, object]
"""An object that is only written as JSON, such as a struct whose fields become keys."""


class ProvenCounts(TypedDict):
    """The newest proof in a tree: its run's ledger, the entries of its evidence, and how many of them are confirmed."""

    ledger: int
    entries: int
    confirmed: int


class RunReport(PublishedTimes, total=False):
    """What a run did. A fact is missing until the step that finds it, or if it does not apply.

    Times are in unix seconds. Lists of structs have the fields of the documents with the same names.

    Attributes:
        report_version: the version of this form.
        complete: whether the run ended.
        exporter_version: the version of the exporter.
        command: the command that made the report.
        started_at: when the run began.
        finished_at: when it ended.
        seconds: how long it took.
        steps: the steps, in their order, each with its name, its durations in seconds and what it counted.
        network: the network's name.
        output: the output's address.
        dry_run: whether nothing was written.
        reading: what the source was asked, and how it answered.
        certificate: the ledger that was read, and how many keys and calls show that everything is its state.
        ledger_close_time: when that ledger closed.
        notices: what the operator should know.
        discovered: markets and pools that are not in the package's lists.
        damaged_history: what is wrong with earlier files of the history.
        lost_prices: the pools that had a price in the last 7 days and have none now.
        checked: how much of the rendered tree was checked.
        run_id: the run that was rendered.
        manifest_sha256: the digest of its manifest.
        published: whether it was published.
        proven: the newest proof in the tree.
        nothing_to_do: whether the ledger was published already.
        unnamed_history: files of the history that no manifest names.
        exit_code: how the run ended.
        message: why it failed; None if it did not.
    """

    report_version: int
    complete: bool
    exporter_version: str
    command: str
    started_at: int
    finished_at: int
    seconds: float
    steps: list[JsonObject]
    network: str
    output: str
    dry_run: bool
    reading: JsonObject
    certificate: JsonObject
    ledger_close_time: int
    notices: list[str]
    discovered: list[JsonObject]
    unread: list[JsonObject]
    unpriced: list[JsonObject]
    bounded: list[JsonObject]
    absent: list[JsonObject]
    skipped: list[JsonObject]
    damaged_history: list[str]
    unpriced_bps: int
    unpriced_markets: list[JsonObject]
    lost_prices: JsonObject
    checked: JsonObject
    run_id: str
    manifest_sha256: str
    published: bool
    proven: ProvenCounts
    nothing_to_do: bool
    unnamed_history: list[str]
    exit_code: int
    message: str | None
