"""Keys and certificates of the simulated cluster: one authority per purpose, all valid for a few days."""

import dataclasses
import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=30)


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes what it issues below one directory."""

    def __init__(self, name: str, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.files = self._write(name, self._certificate, self._key)

    def issue(self, name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """A client certificate (name and groups are the user), also a server's where hosts are given."""
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_subject(name, groups), self._name, key.public_key(), self._key.public_key())
        if hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return self._write(name, certificate, key)

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        stem = name.replace(":", "-")
        pair = Pair(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def service_account_key(directory: Path) -> Path:
    """The key with which tokens of ServiceAccounts are signed; its public half is derived from it."""
    path = directory / "service-account.key"
    _write_key(path, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return path


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _subject(name: str, groups: Sequence[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
