"""The settings of a run, from a TOML file, the environment and flags. A later source wins over an earlier one."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field, structs

from exporter.deployments import protocol_of_market
from exporter.deployments.networks import NETWORKS, network_of
from exporter.durations import DurationRange, bare_number
from exporter.errors import ConfigError, printable
from exporter.ledger.codec import strkey
from exporter.protocols import PROTOCOLS
from exporter.tree.values import MAX_PUBLIC_URL, POOL, PUBLIC_URL
from exporter.user_files import user_path

MAX_CONFIG_BYTES = 1 << 20

_Section = TypeVar("_Section", bound=Struct)

MAX_LEDGER_AGE = timedelta(minutes=15)
"""The default of ``network.max_ledger_age`` for every network that is not simulated."""

DURATIONS: Final = {
    "network.request_timeout": DurationRange("1s", "10m"),
    "network.read_deadline": DurationRange("1s", "1d"),
    "network.max_ledger_age": DurationRange("0s", "365d", unit="s"),
    "output.retention": DurationRange("1h", "365d", unit="h"),
    "schedule.interval": DurationRange("1m", "7d", unit="m"),
}
"""The keys that take a duration, with the range that each accepts."""

ACCEPTED: dict[str, str] = {
    "network.name": f"one of {', '.join(NETWORKS)}",
    "network.passphrase": "the passphrase of a network, as text",
    "network.rpc_urls": "a list of Stellar RPC URLs (https, or http on this machine)",
    "network.rpc_headers": "a table of HTTP headers for the RPC, NAME = VALUE, or such a table for each host",
    "network.max_in_flight": "a whole number from 1 to 256: requests under way at once",
    "network.requests_per_second": "a number from 0.01 to 100000: the most calls to one endpoint in a second",
    "network.request_timeout": f"{DURATIONS['network.request_timeout']}: the longest that one request may take",
    "network.read_deadline": f"{DURATIONS['network.read_deadline']}: the longest that a whole reading may take",
    "network.max_ledger_age": f"{DURATIONS['network.max_ledger_age']}: how old the RPC's ledger may be; 0s: any age",
    "network.prefer_checkpoint": "true or false: whether to take a checkpoint's ledger, if one will do",
    "network.max_rounds": "a whole number from 1 to 100: how often to read again for a common ledger",
    "output.uri": "the path of a folder (~ is the home), or s3://bucket/prefix",
    "output.page_sizes": "a list of different whole numbers from 1 to 10000 that holds 1",
    "output.default_page_size": "one of output.page_sizes",
    "output.market_pools_cap": "a whole number from 1 to 10000: pools listed in a market document",
    "output.retention": f"{DURATIONS['output.retention']}: how long pages of earlier runs stay",
    "output.public_url": "the https address of the published tree, such as https://example.org/markets: with it web "
    "pages say where they are, a shared link has a picture, and sitemap.xml lists the pages",
    "output.report": "the path of the run report to write (~ is the home), or - for standard output",
    "schedule.interval": f"{DURATIONS['schedule.interval']}: the time from run to run, published for readers",
    "history.compact": "true, or false to leave every run's file of the history as it is",
    "history.months": "a whole number from 0 to 1200: whole months that stay in a file a day",
    "discovery.enabled": "true, or false for only the markets named in [[markets]]",
    "markets": "tables [[markets]] with a protocol and an address",
    "markets.protocol": f"one of {', '.join(PROTOCOLS)}",
    "markets.address": "the strkey of a market contract (C...)",
    "max_unpriced_share": "a number from 0 to 1: of the pools that had a price in the last 7 days, the share without "
    "one above which a run ends with exit code 7",
    "exclude": 'a list of addresses of markets, pools or oracles, or of "MARKET/POOL", that a run leaves alone',
    "allow_unread": 'a list of "MARKET" or "MARKET/POOL" that are known to be dead',
}
"""What each key accepts, in the words that error messages and docs/configuration.md show."""

ENVIRONMENT: dict[str, str] = {
    "EXPORTER_NETWORK": "network.name",
    "EXPORTER_PASSPHRASE": "network.passphrase",
    "EXPORTER_RPC_URLS": "network.rpc_urls",
    "EXPORTER_RPC_HEADERS": "network.rpc_headers",
    "EXPORTER_MAX_IN_FLIGHT": "network.max_in_flight",
    "EXPORTER_REQUESTS_PER_SECOND": "network.requests_per_second",
    "EXPORTER_OUT": "output.uri",
    "EXPORTER_REPORT": "output.report",
    "EXPORTER_INTERVAL": "schedule.interval",
}
"""The environment variables, with the key that each one sets.

RPC URLs are separated by white space or commas. Headers are lines ``NAME: VALUE``, or a JSON object.
"""


class _Renamed(NamedTuple):
    """The present name of something that was renamed, and the unit of the number that it took before."""

    now: str
    unit: str


_RENAMED_KEYS: Final = {
    "network.request_timeout_seconds": _Renamed("network.request_timeout", "s"),
    "network.read_deadline_seconds": _Renamed("network.read_deadline", "s"),
    "output.retention_hours": _Renamed("output.retention", "h"),
    "schedule.interval_minutes": _Renamed("schedule.interval", "m"),
}
_RENAMED_VARIABLES: Final = {"EXPORTER_INTERVAL_MINUTES": _Renamed("EXPORTER_INTERVAL", "m")}

_READ_ELSEWHERE = (
    "EXPORTER_CONFIG",
    "EXPORTER_PYTHON",
    "EXPORTER_PAGES",
    "EXPORTER_REAL_DATA",
)
# Variables of the tests, and those that Kubernetes sets in every container next to a service named "exporter".
_FOREIGN = re.compile(r"EXPORTER_(TEST|SERVICE|PORT)(_.*)?")


class NetworkSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The network, and how it is asked.

    A ``max_ledger_age`` of None is 15 minutes, and no limit for a simulated network.
    """

    name: str = "mainnet"
    passphrase: str | None = None
    rpc_urls: tuple[str, ...] = ()
    rpc_headers: dict[str, str | dict[str, str]] = field(default_factory=dict)
    max_in_flight: Annotated[int, Meta(ge=1, le=256)] = 4
    requests_per_second: Annotated[float, Meta(ge=0.01, le=100_000)] = 8.0
    request_timeout: timedelta = timedelta(seconds=30)
    read_deadline: timedelta = timedelta(minutes=5)
    max_rounds: Annotated[int, Meta(ge=1, le=100)] = 12
    prefer_checkpoint: bool = False
    max_ledger_age: timedelta | None = None


class OutputSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the tree goes, how large its pages are, and how long earlier runs stay."""

    uri: str = "./public"
    page_sizes: tuple[Annotated[int, Meta(ge=1, le=10_000)], ...] = (1, 5, 10, 20, 50, 100, 200)
    default_page_size: int = 50
    market_pools_cap: Annotated[int, Meta(ge=1, le=10_000)] = 200
    retention: timedelta = timedelta(days=1)
    public_url: str | None = None
    report: str = "run-report.json"


class ScheduleSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The schedule. ``interval`` is the time from run to run that readers are promised; None if nothing is promised."""

    interval: timedelta | None = None


class HistorySettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether runs compact the history, and how many whole months keep a file for each day."""

    compact: bool = True
    months: Annotated[int, Meta(ge=0, le=1200)] = 2


class DiscoverySettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether a run looks for markets that the configuration does not name."""

    enabled: bool = True


class MarketSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A market that is always read and counts as listed."""

    protocol: str
    address: str


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a run. With the state of the ledger they decide its result."""

    network: NetworkSettings = field(default_factory=NetworkSettings)
    output: OutputSettings = field(default_factory=OutputSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    markets: tuple[MarketSettings, ...] = ()
    max_unpriced_share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    allow_unread: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def may_be_unread(self, name: str) -> bool:
        """Whether ``MARKET`` or ``MARKET/POOL`` is known to be dead, by itself or with its market."""
        market = name.partition("/")[0]
        return name in self.allow_unread or market in self.allow_unread

    def without_endpoints(self) -> Settings:
        """The settings without URLs and headers of RPCs, which may contain keys, for callers that ask no RPC."""
        return structs.replace(self, network=structs.replace(self.network, rpc_urls=(), rpc_headers={}))

    @property
    def passphrase(self) -> str:
        """The passphrase of the network."""
        return self.network.passphrase or NETWORKS[self.network.name].passphrase

    @property
    def max_ledger_age(self) -> timedelta:
        """The largest age of an RPC's ledger. Zero allows any age."""
        if self.network.max_ledger_age is not None:
            return self.network.max_ledger_age
        return timedelta(0) if network_of(self.passphrase).simulated else MAX_LEDGER_AGE


class Configuration(Struct, frozen=True):
    """Settings, with the origin of each key that does not have its default."""

    settings: Settings
    origins: dict[str, str]


def load(
    path: Path | None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Configuration:
    """The settings of a file, flags (by key) and the environment.

    Raises `ConfigError`, which names the key and where its value comes from.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if path is not None:
        merged = _read_toml(path)
        for name, value in merged.items():
            keys = [f"{name}.{inner}" for inner in value] if isinstance(value, dict) else [name]
            origins |= dict.fromkeys(keys, str(path))
    environment = os.environ if environment is None else environment
    _refuse_unknown(environment)
    for variable, key in ENVIRONMENT.items():
        text = environment.get(variable, "")
        if text:
            _put(merged, key, _from_text(key, text))
            origins[key] = f"environment variable {variable}"
    for key, value in (flags or {}).items():
        if value is not None:
            _put(merged, key, value)
            origins[key] = "command line"
    _refuse_renamed(merged, origins)
    _read_durations(merged, origins)
    return Configuration(_checked(_structure(Settings, merged, "", origins), origins), origins)


def load_settings(path: Path | str | None = None, values: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a TOML file, the environment (``EXPORTER_*``), and values by key. The later wins.

    docs/configuration.md lists the keys.

        >>> load_settings(None, {"output.uri": "./public"}).output.uri
        './public'

    Raises:
        ConfigError: a setting is not valid. The message names the key and what it accepts.
    """
    return load(None if path is None else user_path(path), values).settings


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    for name, renamed in _RENAMED_VARIABLES.items():
        if environment.get(name):
            raise ConfigError(_said_of_renamed(f"environment variable {name}", renamed, environment[name], "{}"))
    accepted = (*ENVIRONMENT, *_READ_ELSEWHERE)
    for name in sorted(environment):
        if name.startswith("EXPORTER_") and environment[name] and name not in accepted and not _FOREIGN.fullmatch(name):
            (nearest,) = difflib.get_close_matches(name, accepted, n=1, cutoff=0)
            listed = ", ".join((*sorted(ENVIRONMENT), "EXPORTER_CONFIG"))
            raise ConfigError(f"unknown environment variable {name}; did you mean {nearest}? Known are {listed}")


def _refuse_renamed(merged: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    for key, renamed in _RENAMED_KEYS.items():
        section, _, name = key.partition(".")
        table = merged.get(section)
        if isinstance(table, dict) and name in table:
            raise ConfigError(_said_of_renamed(_named(key, origins), renamed, table[name], '"{}"'))


def _said_of_renamed(old: str, renamed: _Renamed, value: object, written: str) -> str:
    """The message about an old name. It has the new name, with the same value if that is a whole number."""
    number = bare_number(value)
    example = written.format(f"{30 if number is None else number}{renamed.unit}")
    return f"{old} is now {renamed.now}; write {'a duration such as ' if number is None else ''}{example}"


def _read_durations(merged: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Replace each written duration by a ``timedelta``. Raises `ConfigError`."""
    for key, accepted in DURATIONS.items():
        section, _, name = key.partition(".")
        table = merged.get(section)
        if isinstance(table, dict) and name in table:
            try:
                table[name] = accepted.parse(table[name])
            except ValueError as error:
                raise _error(key, str(error), origins) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigError(f"the configuration file {path} is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")  # editors of Windows put a byte order mark first
        if "\0" in text:  # UTF-16 and UTF-32 of plain letters are valid UTF-8
            raise ConfigError(f"the configuration file {path} is not UTF-8 (it has NUL bytes); save it as UTF-8")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration file {path} is not UTF-8 ({error.reason}); save it as UTF-8") from None
    except ValueError as error:  # this includes integers with too many digits
        raise ConfigError(f"the configuration file {path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(
            f"the configuration file {path} nests too deeply; no key needs more than two levels"
        ) from None


def _put(merged: dict[str, Any], key: str, value: Any) -> None:
    section, _, name = key.partition(".")
    if not name:
        merged[section] = value
        return
    table = merged.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{section} must be a table [{section}]")
    table[name] = value


def _from_text(key: str, text: str) -> Any:
    if key == "network.rpc_urls":
        return [url for url in re.split(r"[\s,]+", text) if url]
    if key == "network.rpc_headers":
        return _headers_from_text(text)
    if key == "network.max_in_flight":
        return int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else text
    if key == "network.requests_per_second":
        return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII) else text
    return text


def _headers_from_text(text: str) -> Any:
    """The headers in lines ``NAME: VALUE`` or in JSON. Raises `ConfigError`, which quotes nothing of them."""
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise ConfigError("EXPORTER_RPC_HEADERS is not JSON, though it begins with {; give a JSON object") from None
    headers = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, value = line.partition(":")
        if line.strip() and not (colon and name.strip() and value.strip()):
            raise ConfigError(
                f"EXPORTER_RPC_HEADERS: line {number} is not NAME: VALUE; accepted are such lines, or a JSON object"
            )
        if line.strip():
            headers[name.strip()] = value.strip()
    return headers


def _structure(model: type[_Section], table: object, section: str, origins: Mapping[str, str]) -> _Section:
    """The settings in a table. ``section`` is its name, or empty for the whole configuration. Raises `ConfigError`.

    Each key is converted by itself, so that it is clear to which key an error belongs.
    """
    if not isinstance(table, Mapping):
        raise _error(section, f"it is {_type_name(table)}, not a table", origins)
    fields = {item.name: item for item in structs.fields(model)}
    dot = f"{section}." if section else ""
    for name in table:
        if name not in fields:
            keys = sorted(accepted for accepted in ACCEPTED if accepted.startswith(dot))
            raise ConfigError(f"unknown key {dot}{name}; known keys are {', '.join(keys)}")
    missing = [name for name, item in fields.items() if item.required and name not in table]
    if missing:
        raise _error(f"{dot}{missing[0]}", "it is missing", origins)
    return model(**{name: _value(fields[name].type, value, f"{dot}{name}", origins) for name, value in table.items()})


def _value(kind: Any, value: object, key: str, origins: Mapping[str, str]) -> object:
    """The value of a key, which may be a table or a list of tables. Raises `ConfigError`."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _structure(kind, value, key, origins)
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    if isinstance(inner, type) and issubclass(inner, Struct) and isinstance(value, (list, tuple)):
        return tuple(_structure(inner, table, key, origins) for table in value)
    try:
        return msgspec.convert(value, kind, builtin_types=(timedelta,))
    except msgspec.ValidationError as error:
        raise _error(key, str(error), origins) from None


def _type_name(value: object) -> str:
    """The type of a TOML value, in the words of TOML's specification."""
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array"}
    return names.get(type(value), "a date or time")


def _error(key: str, message: str, origins: Mapping[str, str]) -> ConfigError:
    accepted = ACCEPTED.get(key)
    text = f"{_named(key, origins)}: {message}"
    return ConfigError(f"{text}; accepted: {accepted}" if accepted else text)


def _named(key: str, origins: Mapping[str, str]) -> str:
    """The key, with the origin of its value if it does not have its default."""
    return f"{key} (from {origins[key]})" if key in origins else key


def _refuse_markets_of_two_protocols(settings: Settings, origins: Mapping[str, str]) -> None:
    """Raise `ConfigError` if a market is named for two protocols, or for another one than the package's lists have."""
    if not settings.markets:
        return
    known = protocol_of_market(network_of(settings.passphrase).deployments)
    named: dict[str, str] = {}
    for index, market in enumerate(settings.markets):
        table = f"{market.address!r} (in table {index + 1}) is named for {market.protocol}"
        if known.get(market.address, market.protocol) != market.protocol:
            message = f"{table}, and the exporter's lists have it as a market of {known[market.address]}"
            raise _error("markets.address", message, origins)
        first = named.setdefault(market.address, market.protocol)
        if first != market.protocol:
            message = f"{table}, and in an earlier table for {first}; a contract is a market of one protocol"
            raise _error("markets.address", message, origins)


def _checked(settings: Settings, origins: Mapping[str, str]) -> Settings:
    if settings.network.name not in NETWORKS:
        raise _error("network.name", f"{settings.network.name!r} is not a network", origins)
    if settings.network.passphrase == "":
        raise _error("network.passphrase", "it is empty", origins)
    sizes = settings.output.page_sizes
    if 1 not in sizes or len(set(sizes)) != len(sizes):
        raise _error("output.page_sizes", f"{list(sizes)} cannot serve every limit", origins)
    if settings.output.default_page_size not in sizes:
        raise _error(
            "output.default_page_size", f"{settings.output.default_page_size} is not in output.page_sizes", origins
        )
    address = settings.output.public_url
    if address is not None and (len(address) > MAX_PUBLIC_URL or re.fullmatch(PUBLIC_URL, address) is None):
        problem = (
            f"{printable(address)!r} is no such address: https, a host, and names after it without a slash at the end"
        )
        raise _error("output.public_url", problem, origins)
    for index, market in enumerate(settings.markets):
        if market.protocol not in PROTOCOLS:
            message = f"{market.protocol!r} (in table {index + 1}) is not a protocol this version knows"
            raise _error("markets.protocol", message, origins)
        if not strkey.is_contract(market.address):
            raise _error("markets.address", f"{market.address!r} (in table {index + 1}) is not one", origins)
    _refuse_markets_of_two_protocols(settings, origins)
    for key, items in (("allow_unread", settings.allow_unread), ("exclude", settings.exclude)):
        for item in items:
            address_part, slash, pool = item.partition("/")
            if not strkey.is_contract(address_part) or (slash and re.fullmatch(POOL, pool) is None):
                raise _error(key, f"{item!r} is not a market or pool", origins)
    return settings
