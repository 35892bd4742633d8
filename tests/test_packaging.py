"""One distribution, two import packages, one script."""

import importlib
import json
import tomllib
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import webhook

PACKAGES = ["webhook", "certs"]


def editable_root() -> Path | None:
    """Return the checkout that an editable install points at; None for a wheel."""
    text = metadata.distribution("trimtab").read_text("direct_url.json")
    known = json.loads(text) if text else {}
    if not known.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(known["url"]).path))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_import_packages_are_those_of_the_distribution(package: str) -> None:
    # An editable install is one .pth file, which says nothing of packages: there the build's settings do.
    root = editable_root()
    if root is None:
        assert set(metadata.packages_distributions()[package]) == {"trimtab"}
        return
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))

    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == PACKAGES
    assert importlib.import_module(package).__file__ == str(root / package / "__init__.py")


def test_keys_and_certificates_are_never_shipped() -> None:
    root = editable_root()
    if root is not None:
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        assert {"*.pem", "*.key", "*.crt"} <= set(settings["tool"]["hatch"]["build"]["exclude"])


def test_the_script() -> None:
    scripts = metadata.entry_points(group="console_scripts", name="trimtab")

    assert {script.value for script in scripts} == {"webhook.cli:main"}


def test_the_version_is_the_distributions() -> None:
    assert metadata.version("trimtab") == webhook.__version__
