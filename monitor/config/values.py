"""The small notations of the configuration: durations, sizes, addresses and URLs.

Each ``parse_*`` raises ``ValueError`` with a message that says what to write instead. None of
them repeats the value it was given: people paste secrets into the wrong key, and mistakes end
up in logs.
"""

from __future__ import annotations

import math
import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from monitor.config.problems import did_you_mean
from monitor.model import ConfigError, Engine
from monitor.sources.address import METRICS_PATH, is_forbidden, parse_url

AUTO = "auto"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?i?b)?", re.ASCII | re.IGNORECASE)
_SIZES = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DATABASE_SCHEMES = ("sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg")
_SECRET_PARAMETERS = frozenset(
    {
        "access_token",
        "api_key",
        "apikey",
        "auth",
        "key",
        "password",
        "secret",
        "sslpassword",
        "token",
    }
)
_MAX_PORT = 65535
_ENDLESS = 1e30


def parse_duration(value: object) -> float:
    """Seconds from ``15s``, ``1h30m`` or a plain number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Beyond this, a whole number does not even fit into a float.
        return float(min(value, _ENDLESS))
    text = value.strip() if isinstance(value, str) else ""
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise ValueError("is not a duration: write 15s, 5m, 1h or a number of seconds")
    return math.fsum(float(n) * _UNITS[unit] for n, unit in _DURATION_PART.findall(text))


def format_duration(seconds: float) -> str:
    """The shortest notation that ``parse_duration`` reads back to the same number."""
    # A day is written as 24h.
    units = ("d", "h", "m") if seconds >= 2 * _UNITS["d"] else ("h", "m")
    for unit in units:
        if seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds.is_integer() else f"{seconds!r}s"


def parse_size(value: object) -> int:
    """Bytes from ``64MB``, ``64MiB`` or a plain number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("is not a size: write 64MB, 512KiB or a number of bytes")
    return round(min(float(match[1]), _ENDLESS) * _SIZES[(match[2] or "b").lower()])


def format_size(size: int) -> str:
    """The shortest notation that ``parse_size`` reads back to the same number."""
    for unit in ("GiB", "GB", "MiB", "MB", "KiB", "kB"):
        if size and size % _SIZES[unit.lower()] == 0:
            return f"{size // _SIZES[unit.lower()]}{unit}"
    return f"{size}B"


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port from ``127.0.0.1:9465`` or ``[::1]:9465``; port 0 takes any free one."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    if not colon or not bare or (":" in bare and not bracketed) or not _is_port(port):
        raise ValueError("is not an address: write HOST:PORT, such as 127.0.0.1:9465")
    if any(c.isspace() or c in "/@" for c in bare):
        raise ValueError("is not an address: write HOST:PORT without http:// or a path")
    return bare, int(port)


def parse_target_url(text: str) -> str:
    """The URL of a server to scrape, without a trailing slash."""
    _check_printable(text)
    try:
        address = parse_url(text)
    except ConfigError as error:
        raise ValueError(f"is not a URL: {str(error).rpartition(': ')[2]}") from None
    if address.user is not None:
        raise ValueError(
            "holds a user name or password: take it out of the URL and use auth with "
            "username and password_file, or bearer_file"
        )
    if _SECRET_PARAMETERS.intersection(_parameter_names(address.query)):
        raise ValueError("holds a secret after '?': take it out of the URL and use auth")
    if _is_forbidden_host(address.host):
        raise ValueError("is the address of a metadata service, which is never scraped")
    return text.strip().rstrip("/")


def parse_base_url(text: str) -> str:
    """The same with its scheme, which is ``http`` where none was written."""
    url = parse_target_url(text)
    return url if "://" in url else f"http://{url}"


def default_target_name(url: str) -> str:
    """``host:port[/path]`` of a URL that ``parse_target_url`` has accepted."""
    address = parse_url(url)
    return address.authority + address.path.removesuffix(METRICS_PATH)


def host_of(url: str) -> str:
    """The host of a URL that ``parse_target_url`` has accepted."""
    return parse_url(url).host


def _check_printable(text: str) -> None:
    if any(not c.isprintable() or c.isspace() for c in text.strip()):
        raise ValueError("holds a space or a control character")


def _parameter_names(query: str) -> set[str]:
    return {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}


def _is_forbidden_host(host: str) -> bool:
    # Names are checked when they are resolved; a literal address can be refused right here.
    try:
        return is_forbidden(host)
    except ValueError:
        return False


def check_database_url(text: str) -> str:
    """A database URL that may stand in the configuration in plain."""
    parts = _split_database_url(text)
    if parts.password is not None or _SECRET_PARAMETERS.intersection(
        _parameter_names(parts.query)
    ):
        raise ValueError(
            "holds a password: put the whole URL into a file or an environment variable and "
            "name it with database_file or database_env"
        )
    return text


def check_secret_database_url(text: str) -> str:
    """A database URL from a file, a variable or the command line; it may hold a password."""
    _split_database_url(text)
    return text


def _split_database_url(text: str) -> SplitResult:
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in _DATABASE_SCHEMES or not text.isprintable():
        raise ValueError(
            "must begin with sqlite:/// or postgresql://, such as sqlite:///monitor.db"
        )
    try:
        return urlsplit(text)
    except ValueError:
        raise ValueError("is not a database URL: the host cannot be read") from None


def parse_engine(text: str) -> Engine | None:
    """An engine by name; ``auto`` is None: the page tells."""
    if text == AUTO:
        return None
    if text not in list(Engine):
        raise ValueError(f"is not a known engine; {did_you_mean(text, [AUTO, *Engine])}")
    return Engine(text)


def check_engine(text: str) -> str:
    """The name of an engine, or ``auto``."""
    parse_engine(text)
    return text


def check_environment_name(text: str) -> str:
    """The name of an environment variable."""
    if not _ENVIRONMENT_NAME.fullmatch(text):
        raise ValueError(
            "is not the name of an environment variable (letters, digits and _): "
            "name the variable here, never its value"
        )
    return text


def check_name(text: str) -> str:
    """A name that is shown on pages, in alerts and as the value of a metric label."""
    if text != text.strip() or not text or not text.isprintable():
        raise ValueError("must be printable text without spaces around it")
    return text


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:6]) <= _MAX_PORT
