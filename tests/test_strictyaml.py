"""YAML as configuration wants it."""

import pytest

from webhook import strictyaml

GOOD: dict[str, tuple[str, object]] = {
    "a mapping": ("a: 1\nb: [x, y]\n", {"a": 1, "b": ["x", "y"]}),
    "JSON": ('{"a": {"b": [1, 2.5, null, true]}}', {"a": {"b": [1, 2.5, None, True]}}),
    "nothing": ("", None),
    "a comment": ("# nothing\n", None),
    "quotes keep a text a text": ("a: 'no'", {"a": "no"}),
    "a quoted key may look like anything": ("'on': 1\n'1': 2", {"on": 1, "1": 2}),
    "an anchor that nobody refers to": ("a: &x 1", {"a": 1}),
    "the same key in two mappings": ("a: {k: 1}\nb: {k: 2}", {"a": {"k": 1}, "b": {"k": 2}}),
    "not a number": ("a: .inf", {"a": float("inf")}),
    "a text of another script": ("a: größe", {"a": "größe"}),
}


@pytest.mark.parametrize(("text", "want"), GOOD.values(), ids=GOOD.keys())
def test_plain_data_is_read(text: str, want: object) -> None:
    assert strictyaml.load(text) == want


BAD: dict[str, tuple[str, str]] = {
    "a key twice": ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is there twice"),
    "a key twice, deep inside": ("a:\n  b:\n  - c: 1\n    c: 2", "line 4: the key 'c' is there twice"),
    "a key twice, once in quotes": ("a: 1\n'a': 2", "line 2: the key 'a' is there twice"),
    "an alias": ("a: &x 1\nb: *x", "line 2: aliases are not accepted"),
    "an alias inside itself": ("&x [*x]", "line 1: aliases are not accepted"),
    "an alias as a key": ("a: &x y\n*x : 1", "line 2: aliases are not accepted"),
    "a merge": ("a: 1\n<<: {b: 1}", "line 2: "),
    "a number as key": ("1: a", "line 1: expected a text as key, found 1"),
    "a truth value as key": ("on: a", "line 1: expected a text as key, found True"),
    "null as key": ("~: a", "line 1: expected a text as key, found None"),
    "a list as key": ("? [a]\n: 1", "line 1: expected a text as key, found ['a']"),
    "a mapping as key": ("? {a: 1}\n: 1", "line 1: expected a text as key, found {'a': 1}"),
    "a Python object": ("a: !!python/object/apply:os.getcwd []", "line 1: could not determine a constructor"),
    "an unknown tag": ("a: !secret x", "line 1: could not determine a constructor"),
    "two documents": ("a: 1\n---\nb: 2", "line 2: "),
    "a bracket left open": ("a: [1, 2", "line 1: "),
    "a tab as indentation": ("a:\n\tb: 1", "line 2: "),
    "a control character": ("a: \x00", "unacceptable character #x0000"),
    "a lone surrogate": ("a: \ud800", "unacceptable character #xd800"),
    "a date that is none": ("a: 2026-99-99", "month must be in 1..12"),
    "nested too deeply": ("[" * 20_000, "recursion"),
    "a number of 5000 digits": ("a: " + "9" * 5000, "4300 digits"),
    "too large": ("#" * (strictyaml.MAX_BYTES + 1), "expected at most 65536 bytes, found 65537"),
    "too large in bytes, not in characters": (
        "#" + "ö" * 40_000,
        "expected at most 65536 bytes, found 80001",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_not_plain_data_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(strictyaml.YamlError) as caught:
        strictyaml.load(text)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    levels = [f"l{n}: &l{n} [{', '.join(['*l' + str(n - 1)] * 9)}]" for n in range(1, 20)]

    with pytest.raises(strictyaml.YamlError, match="line 2: aliases are not accepted"):
        strictyaml.load("\n".join(["l0: &l0 x", *levels]))


def test_the_limit_is_the_callers() -> None:
    assert strictyaml.load("#" * 100_000, limit=100_000) is None
