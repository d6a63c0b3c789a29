"""Checks the files of a run, one by one, before anything that readers can find is replaced.

What a single file shows is judged when the file is added. What needs several files, such as links and the history, is
judged in the end, when all of them were added. `exporter.audit.published_checker` checks published trees with it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from exporter.errors import CheckError, DecodeError
from exporter.exact import JSON_INTEGER_MAX, utilization_bps
from exporter.history.changes_table import rows_before
from exporter.history.empty_runs import empty_runs
from exporter.history.manifest import decode_history_manifest, folder_of, span_of
from exporter.parquet_bounds import open_parquet
from exporter.publishing.faults import Fault, TreeFaultsError
from exporter.publishing.page_links import links_of
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    DataPackage,
    HistoryFile,
    HistoryManifest,
    MarketSummary,
    SystemStatus,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    CHANGES_TABLE,
    DAILY_ROLLUP,
    EVIDENCE,
    HISTORY_MANIFEST_KEY,
    HOURLY_ROLLUP,
    LATEST_PARQUET,
    OPENAPI_KEY,
    PAGE,
    PROOF,
    RISK_TABLE,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    TOTALS_PAGE,
    YIELDS,
    Family,
    kind_of,
    parse_key,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import content_type
from exporter.tree.pools import AssetDetail
from exporter.tree.problems import Problem
from exporter.tree.read_back import parse_back
from exporter.tree.routes import route
from exporter.tree.run_listing import RunListing
from exporter.tree.values import as_written

MAX_FAULT_CHARACTERS = 400
"""Longest text of a fault. A text may quote the file, whose values can have any length."""

_WRITTEN_APART = (DAILY_ROLLUP.only_key, HOURLY_ROLLUP.only_key, RISK_TABLE.only_key)
"""Files that pages link to, though they are not written with the pages. The history's manifest checks rollups."""

_Model = TypeVar("_Model")


class CheckCounts(Struct, kw_only=True):
    """How much was checked: a check that read little proves little.

    Attributes:
        run_id: the run whose files were checked.
        ledger: the run's ledger.
        files: number of files, by kind.
        bytes: size of the files, by kind.
        documents: number of documents, by the name of their model.
        markets: number of documents of a single market.
        pools: number of documents of a single pool.
        links: number of links that were followed to a file.
        history_files: number of Parquet files of the history.
        history_rows: number of their rows.
    """

    run_id: str = ""
    ledger: int = 0
    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    markets: int = 0
    pools: int = 0
    links: int = 0
    history_files: int = 0
    history_rows: int = 0

    def as_dict(self) -> dict[str, object]:
        """The counts as JSON has them, each counter sorted by name."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: dict(sorted(it.items())) if isinstance(it, Counter) else it for name, it in values.items()}


_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError)


class ParquetFacts(NamedTuple):
    """What a Parquet file of the history contains.

    Attributes:
        rows: number of rows; None if the file cannot be read.
        ledgers: the first and the last ledger of its runs; None without a run.
        closed: the first and the last close time of its runs; None without a run.
    """

    bytes: int
    sha256: str
    rows: int | None = None
    ledgers: tuple[int, int] | None = None
    closed: tuple[datetime, datetime] | None = None


def read_parquet(data: bytes, sha256: str) -> ParquetFacts:
    """Read the facts of a history file with this SHA-256. Raises `CheckError` if it cannot be read."""
    try:
        columns = ["observed_ledger", "ledger_close_time"]
        file = open_parquet(data, columns)
        table, without_rows = file.read(columns), empty_runs(file)
        ends = [list(pc.min_max(column).as_py().values()) for column in table.columns if table.num_rows]
        ledgers, closed = ends or ([], [])
        ledgers += without_rows
        closed += [datetime.fromtimestamp(time, UTC) for time in without_rows.values()]
    except DecodeError as error:
        raise CheckError(str(error)) from error
    except _ARROW_ERRORS as error:
        raise CheckError(f"pyarrow cannot read it: {error}") from error
    if not ledgers:
        return ParquetFacts(len(data), sha256, 0)
    return ParquetFacts(len(data), sha256, table.num_rows, (min(ledgers), max(ledgers)), (min(closed), max(closed)))


class TreeChecker:
    """Checks the files of one run, which are added one by one, and keeps none of them in memory.

    Files of earlier runs are not added: each run checked its own. Web pages are best added last: then most of their
    links lead to files that were added already.

    Attributes:
        ledger: the ledger of the run.
        page_sizes: the numbers of pools on a page that the API offers.
        counts: how much was checked until now.
        seen: the keys of the files that were added, and of those that need no check.
        pending_links: links to files that were not added yet, keyed by the file that they lead to. The value is the key
            of the first file with such a link, and the text of the fault if the link's file never comes.
    """

    remembered: ClassVar[tuple[type, ...]] = (SystemStatus, HistoryManifest)
    """Models with a single document in a tree. It is kept until the end."""
    expects_earlier_files: ClassVar[bool] = False
    """Whether files of the history that earlier runs wrote are added, too."""

    def __init__(self, ledger: int, page_sizes: Sequence[int]) -> None:
        self.ledger, self.page_sizes = ledger, page_sizes
        self.counts = CheckCounts()
        self.seen = set[str]()
        self.pending_links: dict[str, Fault] = {}
        self._faults = set[Fault]()
        self._documents: dict[type, Any] = {}
        self._parquet: dict[str, ParquetFacts] = {}

    def single_document(self, model: type[_Model]) -> _Model | None:
        """The document of a model that a tree has only once; None if it was not added."""
        document: _Model | None = self._documents.get(model)
        return document

    def count_link(self, key: str) -> bool:
        """Count a link to a file, and tell whether the file is there."""
        self.counts.links += 1
        return self.is_there(key)

    def is_there(self, key: str) -> bool:
        """Whether a file is known to be there."""
        return key in self.seen

    def fault(self, key: str, *texts: str) -> None:
        """Record what is wrong with a file: a fault for each text."""
        for text in texts:
            cut = text if len(text) <= MAX_FAULT_CHARACTERS else text[: MAX_FAULT_CHARACTERS - 1] + "…"
            self._faults.add(Fault(key, cut.replace("\n", " ")))

    def missing(self, key: str, text: str) -> None:
        """Record that a file which must be there was not added. ``key`` is that of the file in which it shows."""
        self.fault(key, text)

    def add_rendered(self, file: RenderedFile) -> None:
        """Add a file that was just rendered."""
        self.add(file.key, file.data, sha256=file.sha256)

    def add(self, key: str, data: bytes, *, sha256: str | None = None) -> None:
        """Check a file by itself, and remember what its links and its facts ask of other files."""
        if key in self.seen:
            self.fault(key, "is there twice")
            return
        self.seen.add(key)
        kind = kind_of(key)
        self.counts.files[kind.value] += 1
        self.counts.bytes[kind.value] += len(data)
        sha256 = sha256 or hashlib.sha256(data).hexdigest()
        parsed = parse_key(key)
        if not data:
            self.fault(key, "is empty")
            return
        try:
            if key.endswith(".html"):
                self._follow_links(key, links_of(key, data))
                return
            self._read(key, data, sha256, *(parsed or (None, {})))
        except CheckError as error:
            self.fault(key, str(error).removeprefix(f"{key}: "))
        except (ValueError, RecursionError) as error:
            self.fault(key, f"cannot be read: {error}")

    def finish(self) -> CheckCounts:
        """Judge the files as a whole, after the last one was added.

        Raises `TreeFaultsError` with all faults. Raises `CheckError` if there is no fault, but no status document.
        """
        status = self.single_document(SystemStatus)
        if status is None:
            self._raise_faults()
            raise CheckError(f"{STATUS_KEY} is missing, so no run is published")
        if OPENAPI_KEY not in self.seen:
            self.missing(OPENAPI_KEY, "is missing")
        if status.manifest_key != RUN.key(run_id=status.run_id):
            self.fault(STATUS_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
        if status.evidence_key not in self.seen:
            self.missing(STATUS_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")
        self._check_history(status)
        for target, fault in self.pending_links.items():
            if target not in self.seen:
                self.fault(fault.key, fault.text)
        counts = self.counts
        counts.ledger, counts.run_id = status.observed_ledger, status.run_id
        counts.markets = counts.documents[MarketSummary.__name__]
        counts.pools = counts.documents[AssetDetail.__name__]
        self._raise_faults()
        return counts

    def _raise_faults(self) -> None:
        if self._faults:
            raise TreeFaultsError(sorted(self._faults))

    def _read(self, key: str, data: bytes, sha256: str, family: Family | None, names: Mapping[str, str]) -> None:
        """Read a file as what its family says it is."""
        if family is RUN_FILES:
            RunListing.from_parquet(data)
        elif key.endswith(".parquet"):
            if family is CHANGES_TABLE:
                rows_before(data, 0)
            elif family is not LATEST_PARQUET:
                self._parquet[key] = ParquetFacts(len(data), sha256)
                self._parquet[key] = read_parquet(data, sha256)
        elif family is EVIDENCE or family is PROOF:
            if names["sha256"] != sha256:
                raise CheckError(f"its content has the digest {sha256}")
        elif key.endswith(".json") and family is not YIELDS:
            self.judge_document(key, data, parse_back(key, data))
        elif content_type(key) is None:
            raise CheckError("no file of a tree has such an extension")

    def judge_document(self, key: str, data: bytes, document: Any) -> None:
        """Count a document that was read, check what it says of itself, and follow its links."""
        model = type(document)
        self.counts.documents[model.__name__] += 1
        if key == HISTORY_MANIFEST_KEY:
            decode_history_manifest(data)
        if model in self.remembered:
            self._documents[model] = document
        self.follow(key, document)

    def follow(self, key: str, document: Any) -> None:
        """Check that a document belongs to the run's ledger, and follow its links."""
        ledger: Any = getattr(document, "observed_ledger", None)
        if isinstance(document, AssetHistory | TotalsHistory):  # its pages may be of earlier runs
            wrong = ledger > self.ledger and not key.startswith((BUCKET_PAGE.prefix, TOTALS_PAGE.prefix))
        else:
            wrong = ledger not in (None, self.ledger) and not isinstance(document, HistoryManifest)
        if wrong:
            self.fault(key, f"$.observed_ledger is {ledger}, but the run is of ledger {self.ledger}")
        match document:
            case AssetDetail():
                self.fault(key, *contradictions(document))
            case AssetsPage(next_cursor=str(cursor)):
                if not self.count_link(target := PAGE.key(cursor=cursor)):
                    self.pending_links.setdefault(
                        target, Fault(key, f"next_cursor leads to {target}, which is not there")
                    )
            case AssetHistory(next_cursor=str()) | TotalsHistory(next_cursor=str()):
                self.counts.links += 1
            case DataPackage():
                # History files are left out: compaction may have replaced one after the package was rendered, and the
                # package names it until the next run. Rollups are left out too: they are written after the package
                # is rendered, and are checked by the history's manifest. A census writes the table of risk, not a run.
                for path in [path for resource in document.resources for path in resource.path]:
                    if path not in _WRITTEN_APART and kind_of(path) is not FileKind.HISTORY:
                        self.counts.links += 1
                        self.pending_links.setdefault(path, Fault(key, f"leads to {path}, which is not there"))

    def _follow_links(self, key: str, links: Iterable[str]) -> None:
        """Follow the links of a web page. A file that is not there may still be added, so its link stays pending."""
        for link in links:
            # A link to the name of a file needs no route.
            if link[1:] in self.pending_links or ("." in link and link[1:] in self.seen):
                self.counts.links += 1
                continue
            path, _, query = link.partition("?")
            if path[1:] in _WRITTEN_APART:  # after the pages; the manifest of the history checks rollups
                continue
            answer = route(path, query, sorted(self.page_sizes))
            if isinstance(answer, Problem):
                self.fault(key, f"links to {link}, which is answered with {answer.status}")
            elif not any(map(self.count_link, answer.keys)):
                self.pending_links.setdefault(
                    answer.keys[0], Fault(key, f"links to {link}, but {answer.keys[0]} is not there")
                )

    def _check_history(self, status: SystemStatus) -> None:
        """Check that the history's manifest describes its files rightly, and ends with the run's ledger."""
        history = self.single_document(HistoryManifest)
        if history is None:
            if self._parquet:
                self.fault(HISTORY_MANIFEST_KEY, "is missing, though the history has files")
            return
        newest = max((file.last_ledger for file in history.files), default=0)
        for name, last_ledger in (("observed_ledger", history.observed_ledger), ("files", newest)):
            if last_ledger != status.observed_ledger:
                text = f"$.{name} reaches to ledger {last_ledger}, but the run is of ledger {status.observed_ledger}"
                self.fault(HISTORY_MANIFEST_KEY, text)
        for file in history.files:
            if file.key in self.seen:
                self.counts.links += 1
                self.fault(file.key, *self._file_faults(file))
            elif self.expects_earlier_files or file.last_ledger >= self.ledger:
                self.missing(file.key, "is missing, though the history's manifest lists it")

    def _file_faults(self, file: HistoryFile) -> Iterator[str]:
        facts = self._parquet.get(file.key)
        if facts is not None and (facts.bytes, facts.sha256) != (file.bytes, file.sha256):
            yield "does not have the bytes that the history's manifest gives for it"
        if facts is None or facts.rows is None:
            return
        self.counts.history_files += 1
        self.counts.history_rows += facts.rows
        if facts.rows != file.rows:
            yield f"has {facts.rows} rows, but {file.rows} in the history's manifest"
        if facts.ledgers is None:
            yield "has no rows, and does not say of which run it is"
        elif facts.ledgers != (file.first_ledger, file.last_ledger):
            yield (
                f"has runs of ledgers {facts.ledgers[0]} to {facts.ledgers[1]}, but {file.first_ledger} to "
                f"{file.last_ledger} in the history's manifest"
            )
        begins, ends = span_of(folder_of(file.key))
        for closed in facts.closed or ():
            if not begins <= closed < ends:
                at = as_written(closed)
                yield f"is of a ledger that closed at {at}, which is another day or month than its folder's"
                return


def contradictions(row: AssetDetail) -> Iterator[str]:
    """Faults of a pool whose fields contradict each other by the definitions of the API."""
    supplied, borrowed = int(row.total_supplied), int(row.total_borrowed)
    utilization = min(utilization_bps(borrowed, supplied), JSON_INTEGER_MAX)
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        dollars, _, fraction = row.oracle_price_usd.partition(".")
        exponent = min(row.decimals + len(fraction), 1_000)  # so that absurd decimals cannot cost much time
        supplied_usd_cents = supplied * int(dollars + fraction) * 100 // 10**exponent
        if int(row.tvl_usd_cents) < supplied_usd_cents:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {supplied_usd_cents}"
