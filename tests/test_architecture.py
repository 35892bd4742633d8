"""The tree is the diagram, and this is what proves it."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import webhook

REPOSITORY = Path(webhook.__file__).parents[1]
ROOT = REPOSITORY / "webhook"


def core() -> list[str]:
    """Return the modules of the core, as the contract lists them, by their paths below `webhook`."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (names,) = (each["source_modules"] for each in contracts if each["name"].startswith("The core "))
    paths = [ROOT.parent.joinpath(*name.split(".")) for name in names]
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")])
    ]
    return [str(file.relative_to(ROOT).with_suffix("")) for file in files]


def everything() -> set[str]:
    """Return every module that is not the face of a package."""
    paths = [file.relative_to(ROOT).with_suffix("") for file in ROOT.rglob("*.py")]
    return {str(path) for path in paths if path.name != "__init__"}


CORE = core()
FORBIDDEN = {
    "aiohttp", "asyncio", "builtins", "concurrent", "http", "io", "kubernetes", "logging", "multiprocessing",
    "os", "pathlib", "prometheus_client", "random", "secrets", "shutil", "socket", "ssl", "subprocess", "sys",
    "tempfile", "threading", "time", "urllib",
}  # fmt: skip


def syntax(module: str) -> ast.Module:
    return ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add((node.module or "").split(".")[0])
    return found


def test_the_import_contracts_hold() -> None:
    command = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run(
        [command, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("module", CORE)
def test_the_core_does_no_io(module: str) -> None:
    tree = syntax(module)

    assert not imported(tree) & FORBIDDEN
    for node in ast.walk(tree):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input", "eval", "exec", "__import__")
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("now", "utcnow", "today") or not is_a_clock(node)
            assert node.attr not in ("uuid1", "uuid4", "uuid6", "uuid7")


@pytest.mark.parametrize("module", sorted(everything() - set(CORE)))
def test_what_is_not_of_the_core_does_io(module: str) -> None:
    tree = syntax(module)
    awaits = any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree))

    assert awaits or imported(tree) & (FORBIDDEN | {"click", "rich"})


def is_a_clock(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("datetime", "date")


@pytest.mark.parametrize("module", CORE)
def test_every_module_of_the_core_says_so(module: str) -> None:
    text = " ".join((ast.get_docstring(syntax(module)) or "").split())

    assert "No I/O" in text or module.startswith("scorers/")
    assert text


def test_every_scorer_is_one_file_and_one_line_of_the_registry() -> None:
    from webhook.scorers import SCORERS  # noqa: PLC0415, the registry under test

    files = {path.stem for path in (ROOT / "scorers").glob("*.py")} - {"__init__", "base"}

    assert {scorer.__module__ for scorer in SCORERS.values()} == {f"webhook.scorers.{name}" for name in files}
    assert list(SCORERS) == sorted(SCORERS)
    assert all(
        name == scorer.__module__.rsplit(".", 1)[1].replace("_", "-") for name, scorer in SCORERS.items()
    )
    tests = Path(__file__).parent / "scorers"
    assert all((tests / f"test_{name}.py").exists() for name in files)
