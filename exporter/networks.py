"""Networks and what is known to be deployed on them.

Addresses come from the protocols' published deployment lists (facts/blend.md 0 and 4, facts/alula.md 2, collected
November 2026). They are candidates, not truth: a run reads each one from the ledger, and one with no contract there is
named as absent. Blend's reward zones add what these lists do not have.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from exporter.ledger import strkey


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment of a protocol: the label people use for it, its backstop, and the markets known to exist."""

    protocol: str
    label: str
    backstop: str | None = None
    markets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """A Stellar network: its passphrase identifies it; nothing else does."""

    name: str
    passphrase: str
    deployments: tuple[Deployment, ...] = field(default=())


def made_address(label: str) -> str:
    """The address of a contract of the embedded network: the contract id is the SHA-256 of a label."""
    return strkey.encode_contract(hashlib.sha256(label.encode()).digest())


_MAINNET = (
    Deployment(
        protocol="blend",
        label="v1",
        backstop="CAO3AGAMZVRMHITL36EJ2VZQWKYRPWMQAPDQD5YEOF3GIF7T44U4JAL3",
        markets=(
            "CADP6E57HEJOAWHBSTEDJYFJSRU5C5D7YBHFEET23CAHD2KGD4XKCFMS",
            "CAQF5KNOFIGRI24NQRRGUPD46Q45MGMXZMRTQFXS25Y4NZVNPT34GM6S",
            "CB22FIF722FWWHKDX6URY2LHTOS6TWLPXL2IOGY5QS6YNQXTRBDCNPD3",
            "CB7V7T52OLKMBC5QPL7GH2OKR4XV6YWDURUXSAAAFCPSNX7EPBYF5DJE",
            "CBP7NO6F7FRDHSOFQBT2L2UWYIZ2PU76JKVRYAQTG3KZSQLYAOKIF2WB",
            "CBQPFUWOMGTGC5X65J52Z2OHFWYWFCA3TMYCVY6G2T2SB326WW45HF2G",
            "CBVOPI6QC6OWVCOEZDCFELAGQNAOHUS4CWOKAVADKQZXVSWR2R5IAKO7",
            "CCTZXMW3DJIKDI3UVDUJR6PM4WFFEB5RIWDXJBGIEFBD5XFHI26LZ5BU",
            "CDAKUFO3WOUG2DLY6XTNRKBSK53VJTJXMTOUEMPKOWN4R756OFICXWID",
            "CDE65QK2ROZ32V2LVLBOKYPX47TYMYO37Z6ASQTBRTBNK53C7C6QF4Y7",
            "CDIUMS2ZNGNGHDRBKFXS4QU23ATPYCTDBUHGZ6FS2MPAEY37FAC4JD3R",
            "CDJ6Q3A2NUK3ANWFGXCHUBPQJXKAXBHNUVILGTEOTSEH2NDZC4FI632B",
            "CDJD2PFCHD2R4SHP3WJ4C6JEF445ODSO74WOCKNFS25I4XI7HMLK3VYO",
            "CDK4KXOYG332TO7VDARUJ66RMQTEADFSZY3RDJZQBS7ZFCD25RV52NXP",
            "CDL3EQ4P3DQH5Q6BT3AINZCCJKUHSXPJAOF7YP3JE7MFJX7FGXHPT27B",
            "CDU4RTOYFZERUD727WW6VRXH5IK35GLCXCPK5ILUYRLLYYMTYSCJXUEA",
            "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP",
        ),
    ),
    Deployment(
        protocol="blend",
        label="v2",
        backstop="CAQQR5SWBXKIGZKPBZDH3KM5GQ5GUTPKB7JAFCINLZBC5WXPJKRG3IM7",
        markets=(
            "CAJJZSGMMM3PD7N33TAPHGBUGTB43OC73HVIK2L2G6BNGGGYOSSYBXBD",
            "CBNR7PYFY775UG7W37B4OJG2OBBUKLFW6VIBHFDKKLR2HECPRMRZMDK3",
            "CCCCIQSDILITHMM7PBSLVDT5MISSY7R26MNZXCX4H7J5JQ5FPIYOGYFS",
            "CB4OFHAY2TAEYUVPOJS36S657C6NYMSIFUNCCA5AHYT46Y5XUID3O2ED",
            "CAE7QVOMBLZ53CDRGK3UNRRHG5EZ5NQA7HHTFASEMYBWHG6MDFZTYHXC",
            "CBYOBT7ZCCLQCBUYYIABZLSEGDPEUWXCUXQTZYOG3YBDR7U357D5ZIRF",
            "CALRF5I2OCJCU577R6MZBCY5IIXNMAAG6PNMN7GUKEYIXBJCJN2FJRVI",
            "CADR6Q2UOCDJAGXMAB2E6SRT35STLZ2IGLZUCXJQG7TC2LNKCU5RTQVY",
            "CDMAVJPFXPADND3YRL4BSM3AKZWCTFMX27GLLXCML3PD62HEQS5FPVAI",
            "CDZVHCO7LDUJZSME3PJPJXAKT7F6W5IXSOXTJ2QEK3Y2X2CDUREBUMUY",
            "CC4HHXPKR3FIXUQEC53MAK2IVWD6APAEBBXP5XCIW5FISN6PQOAC6UXG",
            "CAIYBZSBI6XXI3W7EDXDRWLUBK3RCAPHTK4DNX74DZGWE53KYWBHE236",
        ),
    ),
    Deployment(
        protocol="blend",
        label="v2.1",
        backstop="CCS4AZ5ORM6VLLPJTJUFRNXWBMHOO3L5WHHRPL2ZMILE35ZDMQFHOQMJ",
        markets=("CBAKAZUEJBAFA2DCGBRS2WKJT3FNIMJBHTFL76AY7XMAVEINQNNIQWAO",),
    ),
    Deployment(protocol="alula", label="main", markets=("CBP76I2FRMUKYKIYYBKN3DH7TSWMFAJF2WTDC7Q2OHQFBIVWP7CAAI5Q",)),
)

_TESTNET = (
    Deployment(
        protocol="blend",
        label="v2",
        backstop="CBDVWXT433PRVTUNM56C3JREF3HIZHRBA64NB2C3B2UNCKIS65ZYCLZA",
        markets=("CCEBVDYM32YNYCVNRXQKDFFPISJJCV557CDZEIRBEE4NCV4KHPQ44HGF",),
    ),
    Deployment(
        protocol="blend",
        label="v2.1",
        backstop="CBGSFY6NR5TSCQJH5EGVMCFTHLZBCAO7YPIW426WSD46V3TESPA3U6DI",
        markets=("CB3447A446DY3USGWPIDXTNQHF5EX24XDQA2EN6TAZP62JTPBTNOA52Q",),
    ),
    Deployment(protocol="alula", label="main", markets=("CBAK5PM2PYW6MQ3M4A7542IAKD2SITBF6KXPDBAUP2WTBRZJPSZ5WKQZ",)),
)

_LOCAL = (
    Deployment(protocol="blend", label="v1", backstop=made_address("localnet blend v1 backstop")),
    Deployment(protocol="blend", label="v2", backstop=made_address("localnet blend v2 backstop")),
    Deployment(
        protocol="alula",
        label="main",
        markets=tuple(made_address(f"localnet alula market {index}") for index in range(3)),
    ),
)

NETWORKS: dict[str, Network] = {
    "mainnet": Network("mainnet", "Public Global Stellar Network ; September 2015", _MAINNET),
    "testnet": Network("testnet", "Test SDF Network ; September 2015", _TESTNET),
    "local": Network("local", "Standalone Network ; February 2017", _LOCAL),
}
"""By the name that the configuration uses."""


def network_of(passphrase: str) -> Network:
    """The known network of a passphrase, or one of that passphrase with nothing known about it."""
    for network in NETWORKS.values():
        if network.passphrase == passphrase:
            return network
    return Network("custom", passphrase)


def network_id(passphrase: str) -> str:
    """SHA-256 of a passphrase, 64 lowercase hex digits: how ledger snapshot files name their network."""
    return hashlib.sha256(passphrase.encode()).hexdigest()
