"""What a Pod's author may ask of the scorers."""

import pytest

from webhook import wishes
from webhook.selectors import Requirement
from webhook.wishes import Wishes

PARSED: dict[str, tuple[str, list[Requirement]]] = {
    "equal": ("app=db", [Requirement("app", frozenset({"db"}))]),
    "equal twice": ("app==db", [Requirement("app", frozenset({"db"}))]),
    "not equal": ("app!=db", [Requirement("app", frozenset({"db"}), positive=False)]),
    "spaces": (
        " app = db , tier != x ",
        [Requirement("app", frozenset({"db"})), Requirement("tier", frozenset({"x"}), positive=False)],
    ),
    "an empty value": ("app=", [Requirement("app", frozenset({""}))]),
    "a prefix": (
        "app.kubernetes.io/name=db",
        [Requirement("app.kubernetes.io/name", frozenset({"db"}))],
    ),
    "exists": ("app", [Requirement("app")]),
    "does not exist": ("!app", [Requirement("app", positive=False)]),
    "in": ("app in (a, b)", [Requirement("app", frozenset({"a", "b"}))]),
    "not in": ("app notin (a)", [Requirement("app", frozenset({"a"}), positive=False)]),
    "one after another": (
        "app=db,env in (a,b),!old,new",
        [
            Requirement("app", frozenset({"db"})),
            Requirement("env", frozenset({"a", "b"})),
            Requirement("old", positive=False),
            Requirement("new"),
        ],
    ),
    "a key that begins like a word": ("inn=x", [Requirement("inn", frozenset({"x"}))]),
}


@pytest.mark.parametrize(("text", "want"), PARSED.values(), ids=PARSED.keys())
def test_parse(text: str, want: list[Requirement]) -> None:
    assert list(wishes.parse(text).requirements) == want


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
    ",".join("abcdefghijklmnopq"),
)


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a label selector"):
        wishes.parse(text)


READ: dict[str, tuple[dict[str, str] | None, Wishes]] = {
    "no annotations": (None, wishes.NONE),
    "others": ({"team": "a"}, wishes.NONE),
    "near": ({wishes.NEAR: "app"}, Wishes(near=wishes.parse("app"))),
    "far": ({wishes.FAR: "app=db"}, Wishes(far=wishes.parse("app=db"))),
    "a model": ({wishes.ACCELERATOR: "a100"}, Wishes(accelerator="a100")),
    "an empty model": ({wishes.ACCELERATOR: ""}, wishes.NONE),
    "a model that no label can be": ({wishes.ACCELERATOR: "x" * 64}, wishes.NONE),
    "a bad selector is none, the other counts": (
        {wishes.NEAR: "app in (", wishes.FAR: "app=db"},
        Wishes(far=wishes.parse("app=db")),
    ),
}


@pytest.mark.parametrize(("annotations", "want"), READ.values(), ids=READ.keys())
def test_read(annotations: dict[str, str] | None, want: Wishes) -> None:
    assert wishes.read(annotations) == want
