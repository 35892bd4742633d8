"""Make a CA and a leaf, and say why material cannot serve a name now.

No I/O and no clock here: bytes in, bytes out, `now` is an argument.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)

# The clock of an API server may be behind that of the Pod which makes the certificate.
BACKDATED = timedelta(hours=1)

# What the library raises for bytes that are no certificate or key, or none that it understands.
_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, with any intermediates after it, and its private key."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)  # a pair in a log line must not give the key away


@dataclass(frozen=True, slots=True)
class Material:
    """What a server needs, and what its clients need to trust it."""

    ca_pem: bytes
    leaf: Pair


def service_names(service: str, namespace: str) -> list[str]:
    """List the names by which a Service is reached; the API server asks for the first."""
    return [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]


def make_ca(*, now: datetime, lifetime: timedelta = CA_LIFETIME) -> Pair:
    """Make a CA that signs leaves only.

    Each has a subject of its own: two generations stand side by side in a bundle during a change,
    and a client picks the issuer by subject.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    common_name = f"trimtab-ca-{own_id.digest.hex()[:16]}"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(key, now=now, not_after=now + lifetime)
        .subject_name(subject)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage("sign certificates"), critical=True)
        .add_extension(_authority(own_id), critical=False)
    )
    return _signed(builder, key, signer=key)


def make_leaf(
    ca: Pair,
    *,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str] = (),
    now: datetime,
    lifetime: timedelta = LEAF_LIFETIME,
) -> Pair:
    """Make a server certificate for the names, signed by the CA and never outliving it."""
    ca_cert = x509.load_pem_x509_certificate(ca.cert_pem)
    ca_key = serialization.load_pem_private_key(ca.key_pem, password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the CA's key is not an elliptic curve key")
    ca_id = ca_cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(key, now=now, not_after=min(now + lifetime, ca_cert.not_valid_after_utc))
        .subject_name(x509.Name([]))
        .issuer_name(ca_cert.subject)
        # Critical, as RFC 5280 asks where the subject is empty: clients read nothing else anyway.
        .add_extension(x509.SubjectAlternativeName(_subjects(dns_names, ip_addresses)), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage("sign handshakes"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_authority(ca_id), critical=False)
    )
    return _signed(builder, key, signer=ca_key)


def find_problem(
    leaf: Pair,
    *,
    ca_pem: bytes,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str] = (),
    now: datetime,
) -> str | None:
    """Say why a client that trusts `ca_pem` and asks for any of the names would refuse, or None."""
    if not ca_pem:
        return "the CA certificate is missing"
    try:
        cert, *intermediates = _usable(leaf, now)
        with _reading("the certificate"):
            _check_names(cert, dns_names=dns_names, ip_addresses=ip_addresses)
        with _reading("the CA certificate"):
            store = verification.Store(x509.load_pem_x509_certificates(ca_pem))
        policy = verification.PolicyBuilder().store(store).time(now)
        with _reading("the name"):
            for subject in _subjects(dns_names, ip_addresses):
                policy.build_server_verifier(subject).verify(cert, intermediates)
    except verification.VerificationError as error:
        return f"the CA does not vouch for the certificate: {error}"
    except _UnfitError as error:
        return str(error)
    return None


def find_ca_problem(ca: Pair, *, now: datetime) -> str | None:
    """Say why `make_leaf` could not sign with the pair now, or None."""
    try:
        cert = _usable(ca, now)[0]
        with _reading("the CA certificate"):
            _check_signer(cert)
    except _UnfitError as error:
        return str(error)
    return None


def _builder(
    key: ec.EllipticCurvePrivateKey, *, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority(ca_id: x509.SubjectKeyIdentifier) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id)


def _key_usage(purpose: Literal["sign certificates", "sign handshakes"]) -> x509.KeyUsage:
    is_ca = purpose == "sign certificates"
    return x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, *, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    cert = builder.sign(signer, hashes.SHA256())
    return Pair(
        cert_pem=cert.public_bytes(serialization.Encoding.PEM),
        key_pem=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


class _UnfitError(Exception):
    """Why material cannot be used, in words for a log line."""


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        raise _UnfitError(f"{what} cannot be read: {error}") from error


def _usable(pair: Pair, now: datetime) -> list[x509.Certificate]:
    """Read the certificates of a pair that belongs together and is valid now."""
    for what, pem in (("certificate", pair.cert_pem), ("private key", pair.key_pem)):
        if not pem:
            raise _UnfitError(f"the {what} is missing")
    with _reading("the certificate"):
        certs = x509.load_pem_x509_certificates(pair.cert_pem)
        public_key = certs[0].public_key()
    with _reading("the private key"):
        key = serialization.load_pem_private_key(pair.key_pem, password=None)
    if key.public_key() != public_key:
        raise _UnfitError("the private key belongs to another certificate")
    if now < certs[0].not_valid_before_utc:
        raise _UnfitError(f"the certificate is not valid before {certs[0].not_valid_before_utc.isoformat()}")
    if now >= certs[0].not_valid_after_utc:
        raise _UnfitError(f"the certificate expired at {certs[0].not_valid_after_utc.isoformat()}")
    return certs


def _check_names(cert: x509.Certificate, *, dns_names: Sequence[str], ip_addresses: Sequence[str]) -> None:
    try:
        held = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        held = x509.SubjectAlternativeName([])
    names = {name.lower() for name in held.get_values_for_type(x509.DNSName)}
    addresses = held.get_values_for_type(x509.IPAddress)
    absent = [name for name in dns_names if not {name.lower(), _wildcard(name)} & names]
    absent += [address for address in ip_addresses if ipaddress.ip_address(address) not in addresses]
    if absent:
        raise _UnfitError(f"the certificate is not for {', '.join(absent)}")


def _wildcard(name: str) -> str:
    return f"*.{name.lower().partition('.')[2]}"


def _subjects(dns_names: Sequence[str], ip_addresses: Sequence[str]) -> list[verification.Subject]:
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ip_addresses]
    return [*(x509.DNSName(name) for name in dns_names), *addresses]


def _check_signer(cert: x509.Certificate) -> None:
    try:
        may_sign = cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        may_sign = False
    if not may_sign or not isinstance(cert.public_key(), ec.EllipticCurvePublicKey):
        raise _UnfitError("the certificate is not that of a CA made here")
