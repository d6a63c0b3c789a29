from exporter.audit.check import check_tree as check_tree
from exporter.audit.check_summary import CheckSummary as CheckSummary
from exporter.config import Settings as Settings
from exporter.config import load_settings as load_settings
from exporter.errors import ExporterError as ExporterError
from exporter.history.export import scan_history as scan_history
from exporter.job.library import LedgerTables as LedgerTables
from exporter.job.library import read as read
from exporter.job.run import RunResult as RunResult
from exporter.job.run import run as run
from exporter.ledger.view import Certificate as Certificate
from exporter.past.archive_source import FromArchive as FromArchive
from exporter.protocols.compute import Tables as Tables
from exporter.publishing.faults import TreeFaultsError as TreeFaultsError

__version__: str
FORMAT: int
__all__: list[str]
