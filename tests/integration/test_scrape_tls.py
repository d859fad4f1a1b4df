"""TLS towards a target: own CA, client certificate, verification off, certificates renewed."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from scrape_peers import PATIENCE, Conversation, Peer, always, answer

from monitor.pipeline import Page
from monitor.settings import Credentials, TargetSettings
from monitor.sources.errors import FetchError, FetchKind
from monitor.sources.scrape import Scraper

PAGE = b"vllm:num_requests_running 1.0\n"


@dataclass(frozen=True)
class Pki:
    """An authority, a certificate for 127.0.0.1 and one for a client."""

    folder: Path

    def __getattr__(self, name: str) -> str:
        return str(self.folder / name.replace("_", "."))


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _issue(folder: Path, name: str, extension: str) -> None:
    request, certificate = f"{name}.csr", f"{name}.pem"
    new = ("-keyout", f"{name}.key", "-out", request, "-subj", f"/CN={name}")
    _openssl(folder, "req", *_NEW_KEY, *new)
    (folder / f"{name}.ext").write_text(extension)
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    files = ("-in", request, "-extfile", f"{name}.ext", "-out", certificate)
    _openssl(folder, "x509", "-req", *signer, *files)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    files = ("-keyout", "ca.key", "-out", "ca.pem")
    _openssl(folder, "req", "-x509", *_NEW_KEY, *files, "-subj", "/CN=authority", "-days", "2")
    _issue(folder, "server", "subjectAltName=IP:127.0.0.1")
    _issue(folder, "client", "extendedKeyUsage=clientAuth")
    return Pki(folder)


def server_context(pki: Pki, *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_pem, pki.server_key)
    if wants_client:
        context.load_verify_locations(pki.ca_pem)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def scraper_of(peer: Peer, credentials: Credentials) -> Scraper:
    return Scraper(
        TargetSettings("a", "chat", peer.url, timeout=PATIENCE, credentials=credentials)
    )


def failure(peer: Peer, credentials: Credentials) -> FetchError:
    with scraper_of(peer, credentials) as scraper, pytest.raises(FetchError) as caught:
        scraper.fetch()
    assert caught.value.kind is FetchKind.TLS
    return caught.value


def test_a_certificate_of_an_own_authority_is_accepted_and_the_connection_kept(pki: Pki) -> None:
    with (
        Peer(always(answer(PAGE)), server_context(pki)) as peer,
        scraper_of(peer, Credentials(ca_file=pki.ca_pem)) as scraper,
    ):
        assert [scraper.fetch() for _ in range(3)] == [Page(PAGE)] * 3
        assert peer.connections == 1


def test_an_unknown_authority_is_refused_with_its_reason(pki: Pki) -> None:
    with Peer(always(answer(PAGE)), server_context(pki)) as peer:
        error = failure(peer, Credentials())
        assert not peer.requests
    assert "the server's certificate is not accepted (" in str(error)


def test_a_certificate_for_another_name_is_refused(pki: Pki) -> None:
    with Peer(always(answer(PAGE)), server_context(pki)) as peer:
        target = TargetSettings(
            "a",
            "chat",
            f"https://localhost:{peer.port}",
            timeout=PATIENCE,
            credentials=Credentials(ca_file=pki.ca_pem),
        )
        with Scraper(target) as scraper, pytest.raises(FetchError, match="not accepted"):
            scraper.fetch()


def test_verification_can_be_switched_off(pki: Pki) -> None:
    with (
        Peer(always(answer(PAGE)), server_context(pki)) as peer,
        scraper_of(peer, Credentials(verify=False)) as scraper,
    ):
        assert scraper.fetch() == Page(PAGE)


def test_a_client_certificate_is_shown(pki: Pki) -> None:
    credentials = Credentials(
        ca_file=pki.ca_pem, cert_file=pki.client_pem, key_file=pki.client_key
    )
    context = server_context(pki, wants_client=True)
    with (
        Peer(always(answer(PAGE)), context) as peer,
        scraper_of(peer, credentials) as scraper,
    ):
        assert scraper.fetch() == Page(PAGE)


def test_a_missing_client_certificate_is_said(pki: Pki) -> None:
    with Peer(always(answer(PAGE)), server_context(pki, wants_client=True)) as peer:
        error = failure(peer, Credentials(ca_file=pki.ca_pem))
    # The server's alert may come before or after its end of the connection.
    assert "certificate required" in str(error) or "require a client certificate" in str(error)


def test_a_certificate_file_that_cannot_be_used_is_named(pki: Pki, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("not a certificate")
    with Peer(always(answer(PAGE)), server_context(pki)) as peer:
        for path in (str(broken), str(tmp_path / "missing.pem")):
            error = failure(peer, Credentials(ca_file=path))
            assert path in str(error)
            assert not error.retryable


def test_a_locked_private_key_is_an_error_and_no_question_on_the_terminal(
    pki: Pki, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.key"
    _openssl(
        pki.folder, "ec", "-in", "client.key", "-aes256", "-passout", "pass:x", "-out", str(locked)
    )
    credentials = Credentials(ca_file=pki.ca_pem, cert_file=pki.client_pem, key_file=str(locked))
    with Peer(always(answer(PAGE)), server_context(pki, wants_client=True)) as peer:
        assert "locked.key" in str(failure(peer, credentials))


def test_certificates_renewed_in_place_are_read_again(pki: Pki, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    shutil.copy(pki.client_pem, authority)
    os.utime(authority, (1, 1))
    with (
        Peer(always(answer(PAGE)), server_context(pki)) as peer,
        scraper_of(peer, Credentials(ca_file=str(authority))) as scraper,
    ):
        with pytest.raises(FetchError):
            scraper.fetch()
        shutil.copy(pki.ca_pem, authority)
        assert scraper.fetch() == Page(PAGE)


def test_a_server_that_speaks_plain_http_on_an_https_url_is_an_error(pki: Pki) -> None:
    def script(conversation: Conversation) -> None:
        conversation.send(answer(b"", "400 Bad Request"))

    with Peer(script) as peer:
        target = TargetSettings("a", "chat", f"https://127.0.0.1:{peer.port}", timeout=PATIENCE)
        with Scraper(target) as scraper, pytest.raises(FetchError, match="TLS failed"):
            scraper.fetch()
