"""The environment's settings of proxies and certificates, checked before the first request of any HTTP client.

The libraries read these variables, too, each in its own way. Some of them fail with an error of their own, and some
ignore what they do not understand. Here a setting that would break a request is a `ConfigError` that names the
variable. No message quotes a proxy's URL, which may hold a password.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit
from urllib.request import getproxies

from exporter.errors import ConfigError
from exporter.user_files import no_folder

if TYPE_CHECKING:
    import httpx

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)
_SOCKS = ("socks5", "socks5h")
_PROXY_SCHEMES = ("http", "https", *_SOCKS)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_of(url: str, *, socks: bool = True) -> str | None:
    """The URL of the proxy for requests to a URL, or None without one. This machine is never asked through a proxy.

    ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` decide, also in small letters. ``NO_PROXY`` lists
    host names, which match their subdomains, too, addresses, and networks (``10.0.0.0/8``, ``fd00::/8``), each also
    with a port. ``*`` matches every host, and any other text none.

    Raises `ConfigError` for a proxy that cannot be used. A proxy of the SOCKS protocol cannot if ``socks`` is False,
    because the caller's library does not know that protocol.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    proxies = getproxies()
    scheme = next((name for name in (parts.scheme, "all") if proxies.get(name)), None)
    if scheme is None or is_loopback(host) or _is_direct(host, port, proxies.get("no", "")):
        return None
    setting = proxies[scheme].strip()
    proxy = setting if "://" in setting else f"http://{setting}"
    variable = _variable(f"{scheme}_proxy")
    try:
        stated = urlsplit(proxy)
        usable = bool(stated.hostname and _is_host(stated.hostname)) and stated.port != 0
    except ValueError:
        raise ConfigError(f"{variable} is not the URL of a proxy; write http://host:port, or unset it") from None
    if stated.scheme not in _PROXY_SCHEMES or not usable:
        raise ConfigError(
            f"{variable} is not the URL of a proxy that can be used; accepted are {', '.join(_PROXY_SCHEMES)}, such as "
            "http://host:port. Correct or unset it, or put the host into NO_PROXY"
        )
    if stated.scheme in _SOCKS and not socks:
        raise ConfigError(
            f"{variable} names a SOCKS proxy, which cannot be used for this; name an http:// proxy in "
            f"{parts.scheme.upper()}_PROXY, or put the host into NO_PROXY"
        )
    return proxy


def tls_context() -> ssl.SSLContext:
    """The TLS settings that verify servers' certificates.

    The authorities are those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, or else Mozilla's. Raises `ConfigError` if a
    file of these variables, or that of ``SSLKEYLOGFILE``, cannot be used.
    """
    import certifi

    try:
        file, folder = _trusted()
        return ssl.create_default_context(cafile=file or (None if folder else certifi.where()), capath=folder)
    except OSError as error:
        raise ConfigError(
            f"SSLKEYLOGFILE: {os.environ.get('SSLKEYLOGFILE', '')!r} cannot be written: {error.strerror}; unset it"
        ) from None


class ClientOptions(TypedDict):
    """Options of an `httpx.AsyncClient`."""

    trust_env: bool
    verify: ssl.SSLContext | bool
    limits: httpx.Limits
    mounts: dict[str, httpx.AsyncBaseTransport | None]


def http_options(urls: Iterable[httpx.URL], limits: httpx.Limits) -> ClientOptions:
    """The options of an `httpx.AsyncClient` for some URLs. Raises `ConfigError`.

    They stop httpx from reading the environment itself, because it refuses networks in ``NO_PROXY``.
    """
    import httpx

    every = list(urls)
    # Loading certificates is slow.
    verify = tls_context() if any(url.scheme == "https" for url in every) else False
    socks = find_spec("socksio") is not None
    mounts: dict[str, httpx.AsyncBaseTransport | None] = {}
    for url in every:
        if (proxy := proxy_of(str(url), socks=socks)) is not None:
            pattern = f"all://{url.netloc.decode('ascii')}"
            mounts[pattern] = httpx.AsyncHTTPTransport(verify=verify, limits=limits, proxy=httpx.Proxy(proxy))
    return {"trust_env": False, "verify": verify, "limits": limits, "mounts": mounts}


def check_requests_to(url: str) -> None:
    """Raise `ConfigError` if the environment would break a request to a URL, whichever library makes it."""
    proxy_of(url)
    if urlsplit(url).scheme == "https":
        _trusted()


def check_aws() -> None:
    """Raise `ConfigError` if a variable of AWS would break every client, whichever library makes it."""
    for variable in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if (endpoint := os.environ.get(variable)) and not _is_web_url(endpoint):
            raise ConfigError(f"{variable} is not a URL that begins with http:// or https://; correct or unset it")
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if (region := os.environ.get(variable)) and not re.fullmatch(r"[A-Za-z0-9-]{1,63}", region, re.ASCII):
            raise ConfigError(f"{variable} is not the name of a region, such as us-east-1; correct or unset it")
    _certificates("AWS_CA_BUNDLE")
    if os.environ.get("SSLKEYLOGFILE"):
        tls_context()
    variable = "AWS_WEB_IDENTITY_TOKEN_FILE"
    if (path := os.environ.get(variable)) and not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises if the user may not look there
        raise ConfigError(f"{variable}: there is no file {path!r}; correct or unset it")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    check_requests_to(endpoint or "https://s3.amazonaws.com")


def _is_direct(host: str, port: int | None, rules: str) -> bool:
    return any(_matches(host.lower(), port, rule.lower()) for rule in re.split(r"[\s,]+", rules) if rule)


def _matches(host: str, port: int | None, rule: str) -> bool:
    """Whether a rule of ``NO_PROXY`` matches a host and its port."""
    rule = rule.partition("://")[2] or rule
    if rule == "*":
        return True
    network, address = _network(rule.strip("[]")), _network(host)
    if network is None and (with_port := re.fullmatch(r"\[?([^\[\]]+)\]?:([0-9]{1,5})", rule)) is not None:
        if int(with_port[2]) != port:
            return False
        rule, network = with_port[1], _network(with_port[1])
    if network is not None:
        return address is not None and address.version == network.version and address.network_address in network
    name = rule.removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _is_host(host: str) -> bool:
    return _HOST_NAME.fullmatch(host) is not None or _network(host) is not None


def _is_web_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and _is_host(parts.hostname or "")
            and parts.port != 0
            and re.search(r"\s", text) is None
        )
    except ValueError:
        return False


def _variable(name: str) -> str:
    """A variable's name as the environment spells it. Small letters come first, as in the libraries."""
    return next(iter(sorted(_spelled(name), reverse=True)), name.upper())


def _spelled(name: str) -> Iterator[str]:
    return (variable for variable, value in os.environ.items() if variable.lower() == name and value)


def _certificates(variable: str) -> str | None:
    """The file of authorities that a variable names, or None without it. Raises `ConfigError` for any other file."""
    path = os.environ.get(variable)
    if not path:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise ConfigError(f"{variable}: the file {path!r} has no certificates (PEM); correct or unset it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{variable}: the file {path!r} cannot be read: {reason}; correct or unset it") from None
    return path


def _trusted() -> tuple[str | None, str | None]:
    """The file and the folder of authorities that the environment names: one of the two, or neither.

    Raises `ConfigError`.
    """
    file, folder = _certificates("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        return file, None
    if folder and any(no_folder(Path(one)) for one in folder.split(os.pathsep)):
        raise ConfigError(f"SSL_CERT_DIR: {folder!r} is not a folder; correct or unset it")
    return None, folder or None
