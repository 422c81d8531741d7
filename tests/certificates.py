"""A certificate authority of the tests' own, with a server's and a client's certificate, made by OpenSSL."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make(folder: Path) -> None:
    """Write ca.pem, and for each of server, client and stranger a folder with ca.pem, cert.pem and key.pem.

    The stranger's certificate is signed by another authority, which nobody trusts.
    """
    for authority in ("ca", "other"):
        _openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN=test {authority}",
            "-keyout", f"{authority}-key.pem", "-out", f"{authority}.pem",
        )  # fmt: skip
    _sign(folder, "server", "ca", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    _sign(folder, "client", "ca", "extendedKeyUsage=clientAuth\n")
    _sign(folder, "stranger", "other", "extendedKeyUsage=clientAuth\n")


def _sign(folder: Path, name: str, authority: str, extensions: str) -> None:
    own = folder / name
    own.mkdir()
    (own / "extensions").write_text(extensions)
    _openssl(
        own, "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", "key.pem", "-out", "csr"
    )
    _openssl(
        own, "x509", "-req", "-in", "csr", "-CA", f"../{authority}.pem", "-CAkey", f"../{authority}-key.pem",
        "-set_serial", "2", "-days", "2", "-extfile", "extensions", "-out", "cert.pem",
    )  # fmt: skip
    (own / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL)
