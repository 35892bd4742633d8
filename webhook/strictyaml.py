"""YAML as configuration wants it: plain data, no duplicate keys, no aliases, a bounded size. No I/O here."""

from collections.abc import Hashable
from typing import Any

import yaml

MAX_BYTES = 64 * 1024


class YamlError(ValueError):
    """A text that is not acceptable YAML; the message says where."""


class _Loader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys and expands aliases without bound; this one refuses both."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases are not accepted", self.get_mark())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"expected a text as key, found {key!r}", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is there twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(text: str, *, limit: int = MAX_BYTES) -> Any:
    """Parse one document; raise YamlError with the line where it is not acceptable."""
    size = len(text.encode(errors="surrogatepass"))
    if size > limit:
        raise YamlError(f"expected at most {limit} bytes, found {size}")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506, a safe loader made stricter
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise YamlError(f"{where}{error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise YamlError(str(error).splitlines()[0] or type(error).__name__) from None
