"""Reads feeds from the YAML files of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from changeledger.config.expectations import ExpectationsFile
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.config.tables import TableConfig
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice, meant

Model = TypeVar("Model", bound=BaseModel)


class _Yaml(yaml.CSafeLoader):
    """A loader that follows YAML 1.2 in two points.

    `on`, `off`, `yes` and `no` are text: settings have such names. Duplicate keys are refused: the last one
    would hide the first, for example that a column is hashed.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} occurs twice", key.start_mark
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
    """Parses a YAML text into plain values. Raises YAMLError."""
    return _Yaml(text).get_single_data()


def read_yaml(path: Path, model: type[Model], what: str, documented: str) -> Model:
    """Reads the file into a model. Raises ConfigError that names the file, the setting and what is wrong."""
    remedy = f"correct {path} ({documented} lists the settings)"
    try:
        return model.model_validate(parsed(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}", remedy) from error
    except ValidationError as error:
        raise ConfigError(f"{what} {path} is not valid: {invalid_settings(error)}", remedy) from error


def misnamed(folder: Path) -> Iterator[tuple[Path, ConfigError]]:
    """Yields files that are not read because they end in `.yml`, each with its error."""
    for path in sorted(folder.glob("*.yml")):
        right = path.with_suffix(".yaml").name
        yield path, ConfigError(f"{path} is not read: files end in .yaml", f"rename it to {right}")


def invalid_settings(error: ValidationError) -> str:
    """Lists the invalid settings of a file, each with what is wrong."""
    errors = error.errors()
    # A list with invalid members is reported as too short as well: leave that out.
    inside = {e["loc"][:depth] for e in errors for depth in range(1, len(e["loc"]))}
    said = [e for e in errors if e["type"] != "too_short" or e["loc"] not in inside]
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in said)


def guess(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message that says what was probably meant; empty if nothing is similar."""
    near = meant(name, known)
    return f", did you mean {near!r}?" if near else ""


def load_feed(path: Path) -> Feed:
    """Reads one feed file, and the feed's files of expectations beside the folder of feeds.

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
    """Returns the folder of expectations beside the folder of feeds; it has a folder for each feed."""
    return feeds.parent / "expectations"


def expectation_files(feeds: Path) -> list[Path]:
    """Returns all files of expectations, including those that no feed reads: these are errors."""
    return [*_expectations(feeds).glob("*/*.y*ml")]


def _with_expectations(feed: Feed, path: Path) -> Feed:
    what, remedy = "the file of expectations", f"correct {path} (docs/expectations.md has examples)"
    file = read_yaml(path, ExpectationsFile, what, "docs/expectations.md")
    table = feed.table(file.table)
    if table is None:
        near = guess(file.table, (config.table for config in feed.tables))
        said = f"{what} {path} is for {file.table!r}, which the feed {feed.feed!r} does not have{near}"
        raise ConfigError(said, remedy)
    of_table = {**table.model_dump(), "expectations": [*table.expectations, *file.expectations]}
    try:
        extended = TableConfig.model_validate(of_table)
    except ValidationError as error:
        raise ConfigError(f"{what} {path} is not valid: {invalid_settings(error)}", remedy) from error
    tables = tuple(extended if config is table else config for config in feed.tables)
    return feed.model_copy(update={"tables": tables})


@cache
def load_feeds(folder: Path) -> dict[str, Feed]:
    """Returns all feeds of a folder by name, in the order of their files. Raises the first ConfigError."""
    feeds, errors = readable_feeds(folder)
    if errors:
        raise errors[0]
    return feeds


def readable_feeds(folder: Path) -> tuple[dict[str, Feed], list[ConfigError]]:
    """Returns the readable feeds, as `load_feeds` does, and the errors of the files that are left out.

    A broken file stops no other feed.
    """
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
    # A folder without a feed may belong to a feed whose file is broken, so it is no error then.
    return feeds, errors or [*_of_no_feed(folder, feeds)]


def _of_no_feed(folder: Path, feeds: Mapping[str, Feed]) -> Iterator[ConfigError]:
    """Yields errors for expectations that no feed reads: those outside a folder named like a feed."""
    for path in sorted(_expectations(folder).glob("*.y*ml")):
        yield ConfigError(
            f"the expectations in {path} are not read: the file is not in a feed's folder",
            f"move it to {path.parent}/<feed>/",
        )
    for path in sorted({file.parent for file in expectation_files(folder)}):
        if path.name not in feeds:
            said = f"the expectations in {path} are not read: there is no feed {path.name!r}"
            yield ConfigError(said + guess(path.name, feeds), "give the folder the name of the feed")


def named_feed(name: str) -> Feed:
    """Returns the feed of that name; other files may be broken. Raises ConfigError if it does not exist."""
    folder = Settings().feeds
    feeds, errors = readable_feeds(folder)
    if name in feeds:
        return feeds[name]
    said = f"there is no feed {name!r} in {folder}"
    if errors:
        # The feed's own file may be one of those that cannot be read.
        raise ConfigError("; ".join([said, *(error.message for error in errors)]), errors[0].remedy)
    raise ConfigError(said, f"{choice(name, feeds)} (CHANGELEDGER_FEEDS is the folder of the feed files)")
