"""Certificates as they are made, and the reasons for which others are turned down.

Whatever is made here is checked by two strangers: cryptography's verifier and, where it is
installed, OpenSSL in its strict mode.
"""

import ipaddress
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from certs import pki
from certs.pki import Pair

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMES = pki.service_names("trimtab", "trimtab-system")
CA = pki.make_ca(now=NOW)
KEY = ec.generate_private_key(ec.SECP256R1())
LEAF = pki.make_leaf(CA, dns_names=NAMES, ip_addresses=["127.0.0.1", "::1"], now=NOW)


def cert_of(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.cert_pem)


def bare_cert() -> Pair:
    """Make a certificate with none of the extensions of ours."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
    )
    cert = builder.sign(KEY, hashes.SHA256())
    return Pair(cert_pem=cert.public_bytes(serialization.Encoding.PEM), key_pem=key_pem(KEY))


def key_pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def test_service_is_asked_for_by_its_svc_name_first() -> None:
    assert pki.service_names("s", "n") == ["s.n.svc", "s.n.svc.cluster.local"]


@pytest.mark.parametrize(
    "subject",
    [
        *(x509.DNSName(name) for name in NAMES),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")),
    ],
    ids=str,
)
def test_leaf_passes_the_verifier_of_cryptography(subject: verification.Subject) -> None:
    store = verification.Store([cert_of(CA)])
    verifier = verification.PolicyBuilder().store(store).time(NOW).build_server_verifier(subject)

    assert verifier.verify(cert_of(LEAF), []) == [cert_of(LEAF), cert_of(CA)]


def test_leaf_passes_openssl_in_strict_mode(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        return  # the verifier above has the last word then
    (tmp_path / "ca.crt").write_bytes(CA.cert_pem)
    (tmp_path / "tls.crt").write_bytes(LEAF.cert_pem)
    command = [openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", NAMES[0]]
    command += ["-attime", str(int(NOW.timestamp())), "-CAfile", "ca.crt", "tls.crt"]

    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (0, "tls.crt: OK\n"), run.stderr


def test_ca_signs_leaves_and_nothing_else() -> None:
    extensions = cert_of(CA).extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)

    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.digital_signature) == (True, False)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)


def test_leaf_serves_and_nothing_else() -> None:
    extensions = cert_of(LEAF).extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value

    assert (usage.key_cert_sign, usage.digital_signature) == (False, True)
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_leaf_names_its_subject_in_the_alternatives_only() -> None:
    alternatives = cert_of(LEAF).extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)

    assert list(cert_of(LEAF).subject) == []
    assert alternatives.critical


@pytest.mark.parametrize("pair", [CA, LEAF], ids=["ca", "leaf"])
def test_keys_are_p256(pair: Pair) -> None:
    key = cert_of(pair).public_key()

    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


@pytest.mark.parametrize("pair", [CA, LEAF], ids=["ca", "leaf"])
def test_certificates_point_at_the_key_of_their_issuer(pair: Pair) -> None:
    ca_id = cert_of(CA).extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority = cert_of(pair).extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value

    assert authority.key_identifier == ca_id.digest


@pytest.mark.parametrize("pair", [CA, LEAF], ids=["ca", "leaf"])
def test_certificates_are_valid_an_hour_back(pair: Pair) -> None:
    assert cert_of(pair).not_valid_before_utc == NOW - timedelta(hours=1)


def test_generations_differ_in_serial_subject_and_key() -> None:
    made = [cert_of(pki.make_ca(now=NOW)) for _ in range(3)]

    assert len({cert.serial_number for cert in made}) == 3
    assert len({cert.subject for cert in made}) == 3
    assert (
        len({cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value for cert in made}) == 3
    )


def test_leaf_lives_as_long_as_asked_for() -> None:
    leaf = pki.make_leaf(CA, dns_names=NAMES, now=NOW, lifetime=timedelta(days=7))

    assert cert_of(leaf).not_valid_after_utc == NOW + timedelta(days=7)


def test_leaf_never_outlives_its_ca() -> None:
    ca = pki.make_ca(now=NOW, lifetime=timedelta(days=2))
    leaf = pki.make_leaf(ca, dns_names=NAMES, now=NOW + timedelta(days=1), lifetime=timedelta(days=7))

    assert cert_of(leaf).not_valid_after_utc == NOW + timedelta(days=2)


def test_time_zone_of_now_does_not_matter() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-5)))
    leaf = pki.make_leaf(CA, dns_names=NAMES, now=elsewhere)

    assert cert_of(leaf).not_valid_before_utc == NOW - timedelta(hours=1)
    assert pki.find_problem(leaf, ca_pem=CA.cert_pem, dns_names=NAMES, now=elsewhere) is None


def test_pair_does_not_show_its_key() -> None:
    assert "PRIVATE" not in repr(LEAF)


@dataclass(frozen=True)
class Case:
    problem: str | None
    leaf: Pair = LEAF
    ca_pem: bytes = CA.cert_pem
    dns_names: tuple[str, ...] = tuple(NAMES)
    ip_addresses: tuple[str, ...] = ()
    later: timedelta = timedelta()


OTHER_CA = pki.make_ca(now=NOW)
OTHER_LEAF = pki.make_leaf(OTHER_CA, dns_names=NAMES, now=NOW)
WILDCARD = pki.make_leaf(CA, dns_names=["*.trimtab-system.svc"], now=NOW)
FORGED = pki.make_leaf(Pair(CA.cert_pem, key_pem(KEY)), dns_names=NAMES, now=NOW)

PROBLEMS = {
    "sound": Case(None),
    "sound for one of its names": Case(None, dns_names=(NAMES[1],)),
    "sound for its addresses": Case(None, ip_addresses=("127.0.0.1", "0:0:0:0:0:0:0:1")),
    "case of a name does not matter": Case(None, dns_names=("TrimTab.trimtab-system.svc",)),
    "wildcard covers one label": Case(None, leaf=WILDCARD, dns_names=("trimtab.trimtab-system.svc",)),
    "wildcard does not cover two labels": Case(
        "not for a.b.trimtab-system.svc", leaf=WILDCARD, dns_names=("a.b.trimtab-system.svc",)
    ),
    "bundle of the old and the new CA": Case(None, ca_pem=OTHER_CA.cert_pem + CA.cert_pem),
    "one second before it expires": Case(None, later=timedelta(days=365, seconds=-1)),
    "no certificate": Case("the certificate is missing", leaf=Pair(b"", LEAF.key_pem)),
    "no key": Case("the private key is missing", leaf=Pair(LEAF.cert_pem, b"")),
    "no CA": Case("the CA certificate is missing", ca_pem=b""),
    "certificate is garbage": Case("the certificate cannot be read", leaf=Pair(b"garbage", LEAF.key_pem)),
    "certificate is garbage in PEM": Case(
        "the certificate cannot be read",
        leaf=Pair(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", LEAF.key_pem),
    ),
    "certificate is cut off": Case(
        "the certificate cannot be read", leaf=Pair(LEAF.cert_pem[:200], LEAF.key_pem)
    ),
    "key is garbage": Case("the private key cannot be read", leaf=Pair(LEAF.cert_pem, b"garbage")),
    "key is encrypted": Case(
        "the private key cannot be read", leaf=Pair(LEAF.cert_pem, key_pem(KEY, password=b"secret"))
    ),
    "CA is garbage": Case("the CA certificate cannot be read", ca_pem=b"garbage"),
    "halves of two pairs": Case(
        "the private key belongs to another", leaf=Pair(LEAF.cert_pem, OTHER_LEAF.key_pem)
    ),
    "expired to the second": Case(
        "the certificate expired at 2027-03-01T12:00:00", later=timedelta(days=365)
    ),
    "not yet valid": Case("not valid before 2026-03-01T11:00:00", later=timedelta(hours=-1, seconds=-1)),
    "another name": Case("not for other.ns.svc", dns_names=(NAMES[0], "other.ns.svc")),
    "another address": Case("not for 10.0.0.1", ip_addresses=("10.0.0.1",)),
    "no alternative names at all": Case("not for trimtab.trimtab-system.svc", leaf=bare_cert()),
    "a name that no certificate can hold": Case(
        "the name cannot be read",
        leaf=pki.make_leaf(CA, dns_names=["my_host"], now=NOW),
        dns_names=("my_host",),
    ),
    "signed by another CA": Case("the CA does not vouch", leaf=OTHER_LEAF),
    "signed with another key in the name of the CA": Case("the CA does not vouch", leaf=FORGED),
}


@pytest.mark.parametrize("case", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problem_of_material_is_found_and_named(case: Case) -> None:
    problem = pki.find_problem(
        case.leaf,
        ca_pem=case.ca_pem,
        dns_names=case.dns_names,
        ip_addresses=case.ip_addresses,
        now=NOW + case.later,
    )

    if case.problem is None:
        assert problem is None
    else:
        assert problem is not None
        assert case.problem in problem


@pytest.mark.parametrize(
    ("ca", "later", "want"),
    [
        pytest.param(CA, timedelta(), None, id="sound"),
        pytest.param(CA, timedelta(days=3650), "expired", id="expired"),
        pytest.param(Pair(b"", b""), timedelta(), "missing", id="empty Secret"),
        pytest.param(
            Pair(CA.cert_pem, OTHER_CA.key_pem), timedelta(), "another certificate", id="mismatched"
        ),
        pytest.param(LEAF, timedelta(), "not that of a CA", id="a leaf"),
        pytest.param(bare_cert(), timedelta(), "not that of a CA", id="says nothing of it"),
    ],
)
def test_problem_of_a_ca_is_found_and_named(ca: Pair, later: timedelta, want: str | None) -> None:
    problem = pki.find_ca_problem(ca, now=NOW + later)

    assert problem == want if want is None else want in (problem or "")
