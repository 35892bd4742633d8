"""The tree is the diagram, and this is what proves it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import webhook

ROOT = Path(webhook.__file__).parent

# From `admission` down nothing does I/O, awaits, or reads a clock.
CORE = (
    "admission",
    "cluster",
    "decision",
    "estimate",
    "expectation",
    "explain",
    "kube",
    "learning",
    "ledger",
    "load",
    "owners",
    "patch",
    "planner",
    "pods",
    "policy",
    "quantity",
    "readings",
    "reasons",
    "refusals",
    "review",
    "selectors",
    "snapshot",
    "sources",
    "strictyaml",
    "volumes",
    *(f"filters/{path.stem}" for path in sorted((ROOT / "filters").glob("*.py"))),
    *(f"scorers/{path.stem}" for path in sorted((ROOT / "scorers").glob("*.py"))),
)
FORBIDDEN = {
    "aiohttp", "asyncio", "builtins", "concurrent", "http", "io", "kubernetes", "logging", "multiprocessing",
    "os", "pathlib", "prometheus_client", "random", "secrets", "shutil", "socket", "ssl", "subprocess", "sys",
    "tempfile", "threading", "time", "urllib", "uuid",
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
        [command, "--no-cache"], cwd=ROOT.parent, capture_output=True, text=True, timeout=120, check=False
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


def is_a_clock(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("datetime", "date")


@pytest.mark.parametrize("module", CORE)
def test_every_module_of_the_core_says_so(module: str) -> None:
    text = " ".join((ast.get_docstring(syntax(module)) or "").split())

    assert "No I/O" in text or module == "scorers/__init__" or module.startswith("scorers/")
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
