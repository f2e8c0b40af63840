"""Feeds from the YAML files of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from changeledger.config.expectations import ExpectationsFile
from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice, meant

Model = TypeVar("Model", bound=BaseModel)


class _Yaml(yaml.CSafeLoader):
    """`on`, `off`, `yes` and `no` are text, as in YAML 1.2: settings have such names.

    A member that stands twice is refused, as YAML 1.2 has it: the last one would hide what the first one
    says, for example that a column is hashed.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is there twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_MERGE = "tag:yaml.org,2002:merge"
_BOOLEAN = "tag:yaml.org,2002:bool"
_Yaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Yaml.add_implicit_resolver(_BOOLEAN, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def parsed(text: str) -> Any:
    """What a YAML text says, in plain values. Raises YAMLError."""
    return _Yaml(text).get_single_data()


def read_yaml(path: Path, model: type[Model], what: str, documented: str) -> Model:
    """The file as a model. Raises ConfigError that names the file, the setting and what is wrong."""
    remedy = f"correct {path} ({documented} lists the settings)"
    try:
        return model.model_validate(parsed(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}", remedy) from error
    except ValidationError as error:
        raise ConfigError(f"{what} {path} is not valid: {invalid_settings(error)}", remedy) from error


def misnamed(folder: Path) -> Iterator[tuple[Path, ConfigError]]:
    """Files that nobody reads because of their names' end, each with what is wrong."""
    for path in sorted(folder.glob("*.yml")):
        right = path.with_suffix(".yaml").name
        yield path, ConfigError(f"{path} is not read: files end in .yaml", f"rename it to {right}")


def invalid_settings(error: ValidationError) -> str:
    """The settings of a file that are wrong, each with what is wrong."""
    errors = error.errors()
    # A list is not short where members of it are wrong.
    inside = {e["loc"][:depth] for e in errors for depth in range(1, len(e["loc"]))}
    said = [e for e in errors if e["type"] != "too_short" or e["loc"] not in inside]
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in said)


def load_feed(path: Path) -> Feed:
    """Read one feed file, and the files of its expectations beside the folder of feeds.

    Raises ConfigError that names the file, the setting and what is wrong.
    """
    feed = read_yaml(path, Feed, "the feed file", "docs/settings.md")
    folder = _expectations(path.parent) / feed.feed
    for _, error in misnamed(folder):
        raise error
    for more in sorted(folder.glob("*.yaml")):
        feed = _with_expectations(feed, more)
    return feed


def _expectations(feeds: Path) -> Path:
    """The folder of the folders of expectations, beside that of the feeds."""
    return feeds.parent / "expectations"


def expectation_files(feeds: Path) -> list[Path]:
    """Those of all feeds, and of none; whatever is not read is among them, to be an error."""
    return [*_expectations(feeds).glob("*/*.y*ml")]


def _with_expectations(feed: Feed, path: Path) -> Feed:
    what = "the file of expectations"
    file = read_yaml(path, ExpectationsFile, what, "docs/expectations.md")
    table = feed.table(file.table)
    if table is None:
        near = meant(file.table, [config.table for config in feed.tables])
        guess = f", did you mean {near!r}?" if near else ""
        said = f"{what} {path} is for {file.table!r}, which the feed {feed.feed!r} does not have{guess}"
        raise ConfigError(said, f"correct {path} (docs/expectations.md has examples)")
    of_table = {**table.model_dump(), "expectations": [*table.expectations, *file.expectations]}
    try:
        extended = TableConfig.model_validate(of_table)
    except ValidationError as error:
        said = f"{what} {path} is not valid: {invalid_settings(error)}"
        raise ConfigError(said, f"correct {path} (docs/expectations.md has examples)") from error
    tables = tuple(extended if config is table else config for config in feed.tables)
    return feed.model_copy(update={"tables": tables})


@cache
def load_feeds(folder: Path) -> dict[str, Feed]:
    """All feeds of a folder, by name, in the order of their file names. Raises ConfigError of the first."""
    feeds, errors = readable_feeds(folder)
    if errors:
        raise errors[0]
    return feeds


def readable_feeds(folder: Path) -> tuple[dict[str, Feed], list[ConfigError]]:
    """As `load_feeds`, with what is wrong of the files that are left out: a broken feed stops no other."""
    feeds: dict[str, Feed] = {}
    errors = [error for _, error in misnamed(folder)]
    for path in sorted(folder.glob("*.yaml")):
        try:
            feed = load_feed(path)
        except ConfigError as error:
            errors.append(error)
            continue
        if feed.feed in feeds:
            said = f"two files of {folder} define the feed {feed.feed!r}"
            errors.append(ConfigError(said, f"rename one, see {path}"))
        else:
            feeds[feed.feed] = feed
    # That of a feed whose file is broken has its name, which cannot be read.
    return feeds, errors or [*_of_no_feed(folder, feeds)]


def _of_no_feed(folder: Path, feeds: Mapping[str, Feed]) -> Iterator[ConfigError]:
    """Expectations that no feed reads: in a folder of another name, or in none."""
    for path in sorted(_expectations(folder).glob("*.y*ml")):
        yield ConfigError(
            f"the expectations in {path} are not read: the file is in no feed's folder",
            f"move it to {path.parent}/<feed>/",
        )
    for path in sorted({file.parent for file in expectation_files(folder)}):
        if path.name not in feeds:
            near = meant(path.name, feeds)
            guess = f", did you mean {near!r}?" if near else ""
            said = f"the expectations in {path} are not read: there is no feed {path.name!r}{guess}"
            yield ConfigError(said, "give the folder the name of the feed")


def named_feed(folder: Path, name: str) -> Feed:
    """The feed of that name; other files may be broken. Raises ConfigError if there is none."""
    feeds, errors = readable_feeds(folder)
    if name in feeds:
        return feeds[name]
    said = f"there is no feed {name!r} in {folder}"
    if errors:
        # Its own file may be one of those that cannot be read.
        raise ConfigError("; ".join([said, *(error.message for error in errors)]), errors[0].remedy)
    raise ConfigError(said, f"{choice(name, feeds)} (CHANGELEDGER_FEEDS is the folder of the feed files)")
