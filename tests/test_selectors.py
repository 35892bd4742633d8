"""Label selectors in their text form."""

import pytest

from webhook import selectors
from webhook.kube import Requirement

PARSED: dict[str, tuple[str, list[Requirement]]] = {
    "equal": ("app=db", [Requirement("app", "In", ["db"])]),
    "equal twice": ("app==db", [Requirement("app", "In", ["db"])]),
    "not equal": ("app!=db", [Requirement("app", "NotIn", ["db"])]),
    "spaces": (
        " app = db , tier != x ",
        [Requirement("app", "In", ["db"]), Requirement("tier", "NotIn", ["x"])],
    ),
    "an empty value": ("app=", [Requirement("app", "In", [""])]),
    "a prefix": ("app.kubernetes.io/name=db", [Requirement("app.kubernetes.io/name", "In", ["db"])]),
    "exists": ("app", [Requirement("app", "Exists")]),
    "does not exist": ("!app", [Requirement("app", "DoesNotExist")]),
    "in": ("app in (a, b)", [Requirement("app", "In", ["a", "b"])]),
    "not in": ("app notin (a)", [Requirement("app", "NotIn", ["a"])]),
    "one after another": (
        "app=db,env in (a,b),!old,new",
        [
            Requirement("app", "In", ["db"]),
            Requirement("env", "In", ["a", "b"]),
            Requirement("old", "DoesNotExist"),
            Requirement("new", "Exists"),
        ],
    ),
    "a key that begins like a word": ("inn=x", [Requirement("inn", "In", ["x"])]),
}


@pytest.mark.parametrize(("text", "want"), PARSED.values(), ids=PARSED.keys())
def test_parse(text: str, want: list[Requirement]) -> None:
    assert list(selectors.parse(text)) == want


BAD = (
    "",
    ",",
    "=db",
    "app=db,",
    "app=db tier=x",
    "app in ()x",
    "app in (a",
    "app in a",
    "a b",
    "app=-x",
    "app>3",
    "a" * 2000,
)


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    with pytest.raises(ValueError, match="^expected a label selector"):
        selectors.parse(text)
