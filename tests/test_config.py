"""Settings: where they come from, and the errors of those that are not accepted."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from exporter.config import ACCEPTED, DURATIONS, ENVIRONMENT, load
from exporter.deployments.networks import NETWORKS
from exporter.errors import ConfigError
from exporter.protocols import PROTOCOLS

ANOTHER = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
MARKET = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"


def write(folder: Path, text: str) -> Path:
    path = folder / "exporter.toml"
    path.write_text(text, encoding="utf-8")
    return path


class TestLoad:
    def test_a_flag_beats_environment_file_and_defaults(self, tmp_path: Path) -> None:
        """A flag beats the environment, which beats the file, which beats the defaults; each key says its origin."""
        path = write(tmp_path, '[output]\nuri = "file"\nretention = "2d"\n[network]\nname = "testnet"\n')
        environment = {"EXPORTER_OUT": "environment", "EXPORTER_NETWORK": "local"}
        environment |= {"EXPORTER_RPC_URLS": "https://a.example, https://b.example"}

        configuration = load(path, {"output.uri": "flag", "output.report": None}, environment)
        settings, defaults = configuration.settings, load(None, environment={}).settings

        assert ("flag", "local", timedelta(days=2)) == (
            settings.output.uri,
            settings.network.name,
            settings.output.retention,
        )
        assert ("https://a.example", "https://b.example") == settings.network.rpc_urls
        assert {
            "output.uri": "command line",
            "network.name": "environment variable EXPORTER_NETWORK",
            "network.rpc_urls": "environment variable EXPORTER_RPC_URLS",
            "output.retention": str(path),
        } == configuration.origins
        assert NETWORKS["mainnet"].passphrase == defaults.passphrase
        assert ("./public", (1, 5, 10, 20, 50, 100, 200)) == (defaults.output.uri, defaults.output.page_sizes)

    def test_markets_and_allow_unread(self, tmp_path: Path) -> None:
        """Named markets and pools known to be dead are taken as they are written."""
        text = f'allow_unread = ["{MARKET}/x"]\n[[markets]]\nprotocol = "blend"\naddress = "{MARKET}"\n'

        settings = load(write(tmp_path, text), environment={}).settings

        assert [("blend", MARKET)] == [(item.protocol, item.address) for item in settings.markets]
        assert (f"{MARKET}/x",) == settings.allow_unread

    @pytest.mark.parametrize(
        ("mistyped", "meant"),
        [
            ("EXPORTER_RPC_URL", "EXPORTER_RPC_URLS"),
            ("EXPORTER_OUTPUT", "EXPORTER_OUT"),
            ("EXPORTER_CONFIGURATION", "EXPORTER_CONFIG"),
        ],
    )
    def test_a_mistyped_variable_is_refused(self, mistyped: str, meant: str) -> None:
        """A variable of ours that nobody reads is an error that names the nearest one that is read, and no value."""
        with pytest.raises(
            ConfigError, match=f"unknown environment variable {mistyped}; did you mean {meant}[?]"
        ) as caught:
            load(None, environment={mistyped: "https://rpc.example/secret"})

        assert 2 == caught.value.exit_code
        assert "secret" not in str(caught.value)

    def test_variables_of_others_are_left_alone(self) -> None:
        """Empty ones, and those of scripts, tests and Kubernetes are no mistakes; all of ours set a known key."""
        others = {
            "EXPORTER_OUTPUT": "",
            "EXPORTER_PYTHON": "python3",
            "EXPORTER_TEST_S3_ENDPOINT": "http://127.0.0.1:1",
            "EXPORTER_SERVICE_HOST": "10.0.0.1",
            "EXPORTER_PORT": "tcp://10.0.0.1:80",
            "EXPORTER_PORT_80_TCP": "x",
        }

        assert {} == load(None, environment=others).origins
        assert set(ENVIRONMENT.values()) <= set(ACCEPTED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[network]\nmax_in_flight = 0", "network.max_in_flight .*a whole number from 1 to 256"),
        ('[network]\nmax_in_flight = "4"', "network.max_in_flight .*a whole number from 1 to 256"),
        ('[network]\nname = "pubnet"', "network.name .*'pubnet' is not a network; accepted: one of mainnet, testnet"),
        ('[network]\nrpc_url = "https://a"', "unknown key network.rpc_url; known keys are .*network.rpc_urls"),
        ('[networks]\nname = "mainnet"', "unknown key networks; known keys are "),
        *(
            (f"[network]\nrequests_per_second = {rate}", "network.requests_per_second .*a number from 0.01 to 100000")
            for rate in ("-1.0", "0.0", "1e-300", "1e300")
        ),
        ('[network]\nrpc_urls = "https://a"', "network.rpc_urls .*a list of Stellar RPC URLs"),
        ('[network]\npassphrase = ""', "network.passphrase .*it is empty"),
        ("[output]\npage_sizes = [5, 10]", "output.page_sizes .*that holds 1"),
        ("[output]\npage_sizes = [1, 1]", "output.page_sizes .*different whole numbers"),
        ("[output]\npage_sizes = [0, 1]", "output.page_sizes .*from 1 to 10000"),
        ("[output]\ndefault_page_size = 7", "output.default_page_size .*one of output.page_sizes"),
        ('[output]\nretention = "0h"', "output.retention .*0s is not accepted; .*of whole hours from 1h to 365d"),
        ('[output]\nretention = "90m"', "output.retention .*90m is not accepted; .*of whole hours from 1h to 365d"),
        ('[output]\nretention = "366d"', "output.retention .*366d is not accepted; .*from 1h to 365d"),
        *(
            (
                f'[output]\npublic_url = "{address}"',
                "output.public_url .*is no such address.*accepted: the https address",
            )
            for address in (
                *(
                    "http://a.example",
                    "https://",
                    "https://a.example/",
                    "https://a.example?x=1",
                    "https://a.example/#x",
                ),
                *("https://u@a.example", "https://a.example/../b", "https://a.example/ä", "a.example", ""),
                f"https://a.example/{'x' * 200}",
            )
        ),
        ("[schedule]\ninterval = 1.5", "schedule.interval .*type float is not a duration; write .*90s, 15m, 2h, 7d"),
        ("[schedule]\ninterval = true", "schedule.interval .*type bool is not a duration"),
        ("[network]\nmax_ledger_age = 900", 'network.max_ledger_age .*900 has no unit; write "900s", "900m", "900h"'),
        ("[network]\nread_deadline = 300.0", 'network.read_deadline .*300 has no unit; write "300s", "300m"'),
        ('[network]\nread_deadline = "300"', "network.read_deadline .*300 has no unit; write 300s, 300m, 300h or 300d"),
        ("[output]\nretention_hours = 48", 'output.retention_hours .* is now output.retention; write "48h"$'),
        ("[schedule]\ninterval_minutes = 15", 'schedule.interval_minutes .* is now schedule.interval; write "15m"$'),
        ("[network]\nread_deadline_seconds = 300.0", 'is now network.read_deadline; write "300s"$'),
        ("[network]\nrequest_timeout_seconds = 2.5", 'is now network.request_timeout; write a duration such as "30s"$'),
        ('[discovery]\nenabled = "no"', "discovery.enabled .*true, or false"),
        ('[[markets]]\nprotocol = "blend"', "markets.address.*it is missing; accepted: the strkey"),
        (
            f'[[markets]]\nprotocol = "lend"\naddress = "{MARKET}"',
            f"markets.protocol.*in table 1.*: one of {', '.join(PROTOCOLS)}$",
        ),
        ('[[markets]]\nprotocol = "blend"\naddress = "CABC"', "markets.address.*CABC.*in table 1.* is not one"),
        (
            "".join(f'[[markets]]\nprotocol = "{name}"\naddress = "{ANOTHER}"\n' for name in ("blend", "blend", "k2")),
            "markets.address.*in table 3.* is named for k2, and in an earlier table for blend",
        ),
        (
            f'[[markets]]\nprotocol = "k2"\naddress = "{MARKET}"',
            "markets.address.*in table 1.* for k2, and the exporter's lists have it as a market of blend",
        ),
        ('allow_unread = ["dead"]', "allow_unread .*'dead' is not a market or pool; accepted: a list of"),
        *(
            (f'{key} = ["{MARKET}/{pool}"]', f"{key} .*{MARKET}/{pool}' is not a market or pool; accepted: a list of")
            for key, pool in (("exclude", ""), ("allow_unread", ""), ("exclude", "a b"), ("exclude", "a/b"))
        ),
        ("allow_unread = 3", "allow_unread .*accepted: a list of"),
        ("network = 3", "network.*: it is an integer, not a table$"),
        ("markets = [3]", "markets.*: it is an integer, not a table; accepted: tables"),
        ("markets = 3", "markets.*: Expected `array`, got `int`; accepted: tables"),
        ('[[markets]]\nname = "x"', "unknown key markets.name; known keys are markets.address, markets.protocol$"),
        ("[network]\nrpc_urls = [3]", r"network.rpc_urls .*got `int` - at `\$\[0\]`; accepted: a list of Stellar"),
        ("[network]\n'' = 1", "unknown key network.; known keys are network"),
        ("[network\n", "is not TOML"),
    ],
)
def test_an_unacceptable_value_names_its_key(tmp_path: Path, text: str, said: str) -> None:
    """An unacceptable value names its key and says what is accepted."""
    path = write(tmp_path, text)

    with pytest.raises(ConfigError, match=said) as caught:
        load(path, environment={})

    assert 2 == caught.value.exit_code


def test_variables_of_before_are_refused() -> None:
    """A variable that was in minutes is refused by its new name, with the value that it takes."""
    with pytest.raises(ConfigError, match=r"EXPORTER_INTERVAL_MINUTES is now EXPORTER_INTERVAL; write 30m$"):
        load(None, environment={"EXPORTER_INTERVAL_MINUTES": "30"})
    with pytest.raises(
        ConfigError, match=r"schedule\.interval \(from .* EXPORTER_INTERVAL\): 30 has no unit; write 30s, 30m"
    ):
        load(None, environment={"EXPORTER_INTERVAL": "30"})


@pytest.mark.parametrize("key", DURATIONS)
def test_every_duration_has_its_unit(key: str) -> None:
    """Each key of a duration takes the lowest and the highest that it accepts, and neither of them as a bare number."""
    accepted = DURATIONS[key]
    section, _, name = key.partition(".")
    for text in (accepted.lowest, accepted.highest):
        settings = load(None, {key: text}, environment={}).settings
        assert accepted.parse(text) == getattr(getattr(settings, section), name)
        with pytest.raises(ConfigError, match=f"{re.escape(key)} .*has no unit; write "):
            load(None, {key: text.rstrip("smhd")}, environment={})


def test_no_key_is_in_a_unit_of_its_own() -> None:
    """A key of a length of time is a duration: no name ends in a unit."""
    assert [] == [key for key in ACCEPTED if re.search(r"_(ms|seconds|minutes|hours|days)$", key)]


def test_the_source_is_named(tmp_path: Path) -> None:
    """The message says where the value came from, and which file is not there."""
    with pytest.raises(ConfigError, match=r"network.max_in_flight \(from environment variable EXPORTER_MAX_IN_FLIGHT"):
        load(None, environment={"EXPORTER_MAX_IN_FLIGHT": "many"})
    with pytest.raises(ConfigError, match=r"cannot read the configuration file .*nothing\.toml"):
        load(tmp_path / "nothing.toml", environment={})


HEADERS = {"Authorization": "Bearer a:b=c", "X-Api-Key": "k"}


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer a:b=c\nX-Api-Key:k\n",
        "\r\n  Authorization : Bearer a:b=c \r\nX-Api-Key: k",
        '{"Authorization": "Bearer a:b=c", "X-Api-Key": "k"}',
    ],
)
def test_headers_from_the_environment(tmp_path: Path, text: str) -> None:
    """Headers are lines or JSON in a variable, or a table of the file; also by host."""
    assert HEADERS == load(None, environment={"EXPORTER_RPC_HEADERS": text}).settings.network.rpc_headers
    table = '[network.rpc_headers]\nAuthorization = "Bearer a:b=c"\nX-Api-Key = "k"\n"a.example" = {K = "v"}\n'
    expected = HEADERS | {"a.example": {"K": "v"}}
    assert expected == load(write(tmp_path, table), environment={}).settings.network.rpc_headers


@pytest.mark.parametrize(
    "text", ["SECRET", "A: b\nSECRET", "{SECRET", '{"A": 1, "SECRET": 2}', '["SECRET"]', ": SECRET"]
)
def test_headers_that_are_none_are_not_quoted(text: str) -> None:
    """An error about headers quotes nothing of them."""
    with pytest.raises(ConfigError, match=r"EXPORTER_RPC_HEADERS|network\.rpc_headers") as caught:
        load(None, environment={"EXPORTER_RPC_HEADERS": text})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_a_byte_order_mark_is_skipped_other_encodings_refused(tmp_path: Path, encoding: str) -> None:
    """A byte order mark of UTF-8 is skipped, and another encoding is refused by its cause."""
    path = tmp_path / "exporter.toml"
    path.write_bytes('[output]\nuri = "ordner-ä"\n'.encode(encoding))
    if encoding == "utf-8-sig":
        assert "ordner-ä" == load(path, environment={}).settings.output.uri
        return
    with pytest.raises(ConfigError, match="save it as UTF-8"):
        load(path, environment={})


def test_what_goes_to_other_machines_has_no_key() -> None:
    """URLs and headers of RPCs are left out, and nothing else is changed."""
    secret = {"network.rpc_urls": ["https://rpc.example.org/KEY"], "network.rpc_headers": {"x-api-key": "KEY"}}
    common = {"network.name": "testnet", "network.max_rounds": 5, "exclude": []}
    settings = load(None, common | secret, environment={}).settings
    assert load(None, common, environment={}).settings == settings.without_endpoints()
