"""Where a target lives: its URL in one normal form, and the addresses never connected to."""

from __future__ import annotations

import base64
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

from monitor.model import ConfigError
from monitor.settings import Credentials

METRICS_PATH = "/metrics"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535
_KEPT_IN_PATH = "/%:@!$&'()*+,;=~"
_KEPT_IN_QUERY = _KEPT_IN_PATH + "?[]"

# Link-local ranges hold the metadata services of the clouds, which hand out credentials to
# whoever asks; the single addresses are those of clouds that serve them elsewhere.
_FORBIDDEN = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::254/128",
        "100.100.100.200/32",
        "192.0.0.192/32",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.ip_network("::/96")


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a target's URL that a request is made of."""

    scheme: str
    host: str
    """As it is resolved: a name or an address, IPv6 without brackets."""
    port: int
    path: str
    query: str
    user: str | None = None
    password: str | None = None

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header and messages show them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = self.port == _DEFAULT_PORTS[self.scheme]
        return host if default else f"{host}:{self.port}"

    @property
    def resource(self) -> str:
        """Path and query as the request line carries them."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def base_path(self) -> str:
        """What stands before ``/metrics``: the prefix that a proxy gave the server."""
        return self.path.rstrip("/").rpartition("/")[0]


def parse_url(url: str) -> Address:
    """Takes a URL apart, or raises ``ConfigError`` with a line that shows no secrets.

    ``host:8000`` means ``http://host:8000/metrics``, and a URL without a path gets
    ``/metrics``: people write down where the server is, not where its metrics are.
    """
    parts, port = _split(url.strip())
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(f"url {_shown(url)}: the scheme must be http or https")
    if not parts.hostname:
        raise ConfigError(f"url {_shown(url)}: there is no host name")
    return Address(
        scheme=parts.scheme,
        host=_ascii_host(parts.hostname, url),
        port=_DEFAULT_PORTS[parts.scheme] if port is None else port,
        path=quote(parts.path, safe=_KEPT_IN_PATH) if parts.path.strip("/") else METRICS_PATH,
        query=quote(parts.query, safe=_KEPT_IN_QUERY),
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def authorization(address: Address, credentials: Credentials) -> str | None:
    """The value of the ``Authorization`` header; credentials win over those in the URL."""
    if credentials.bearer is not None:
        return f"Bearer {credentials.bearer.get_secret_value()}"
    user, password = address.user, address.password
    if credentials.username is not None:
        user = credentials.username
        password = credentials.password.get_secret_value() if credentials.password else None
    if user is None:
        return None
    pair = f"{user}:{password or ''}".encode()
    return f"Basic {base64.b64encode(pair).decode('ascii')}"


def is_forbidden(peer: str) -> bool:
    """Whether ``peer``, a numeric address, is one that is never connected to."""
    address = ipaddress.ip_address(peer.partition("%")[0])
    candidates = {address}
    if isinstance(address, ipaddress.IPv6Address):
        candidates.update(_embedded(address))
    return any(candidate in network for candidate in candidates for network in _FORBIDDEN)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach ``host``, a name or an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _embedded(address: ipaddress.IPv6Address) -> set[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address is a disguise of."""
    found = {address.ipv4_mapped, address.sixtofour}
    if address in _NAT64 or address in _IPV4_COMPATIBLE:
        found.add(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return {inner for inner in found if inner is not None}


def _split(url: str) -> tuple[SplitResult, int | None]:
    # "host:8000" would be read as the scheme "host".
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"url {_shown(url)}: the host or the port is not valid") from error
    if port == 0:
        raise ConfigError(f"url {_shown(url)}: the port must be 1 to {_MAX_PORT}")
    return parts, port


def _ascii_host(host: str, url: str) -> str:
    if ":" in host:
        return host
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ConfigError(f"url {_shown(url)}: the host name is not valid") from error
    # Only these characters occur in names; anything else could break out of the Host header.
    if not re.fullmatch(r"[A-Za-z0-9._-]+", ascii_host):
        raise ConfigError(f"url {_shown(url)}: the host name is not valid")
    return ascii_host


def _shown(url: str) -> str:
    """A URL for a message: no user name, no password, no query."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    scheme, separator, rest = bare.rpartition("://")
    authority, slash, path = rest.partition("/")
    return repr(scheme + separator + authority.rpartition("@")[2] + slash + path)
