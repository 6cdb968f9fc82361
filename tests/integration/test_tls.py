"""`flywheel serve` over TLS, with a certificate from two files."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api.cli.main import run_command
from api.cli.ready import ask_ready
from api.cli.serve import tls_files
from api.errors import BadCertificate
from tests.conftest import Database

COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()", "serve", "--port", "0"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return certificate, secret


def test_the_server_is_reached_over_tls_and_says_so(
    files: tuple[Path, Path], empty_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, key = files
    env = {
        **os.environ,
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_HOME": str(tmp_path / "home"),
        "FLYWHEEL_TLS_KEY": str(key),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [*COMMAND, "--tls-certificate", str(certificate)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            said = next(line for line in child.stdout if line.startswith("Serving on "))
            url = said.split()[2].rstrip(".")
            assert url.startswith("https://127.0.0.1:")
            trusted = ssl.create_default_context(cafile=str(certificate))
            assert httpx2.get(f"{url}/healthz", verify=trusted).json()["status"] == "ok"
            port = url.rpartition(":")[2]
            assert run_command(["doctor", "--ready", "--port", port]) == 0
            ask_ready(int(port), is_tls=True)
        finally:
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=30)
    assert run_command(["doctor", "--ready", "--port", port]) == 1
    assert "start the server" in capsys.readouterr().err


def test_files_that_cannot_be_used_are_an_error_before_anything_listens(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = files
    assert tls_files(None, None) == {}
    assert tls_files(certificate, key)["ssl_keyfile"] == str(key)
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    assert tls_files(both, None) == {"ssl_certfile": str(both), "ssl_keyfile": None}
    for given in ((None, key), (certificate, None), (certificate, certificate), (tmp_path / "none.pem", key)):
        with pytest.raises(BadCertificate, match="--tls-certificate"):
            tls_files(*given)
