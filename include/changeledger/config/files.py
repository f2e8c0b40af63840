"""Feeds from the YAML files of a folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import (
    BaseModel,
    ValidationError,
)

from changeledger.config.feed import Feed
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant

Model = TypeVar("Model", bound=BaseModel)


def read_yaml(path: Path, model: type[Model], what: str, documented: str) -> Model:
    """The file as a model. Raises ConfigError that names the file, the setting and what is wrong."""
    remedy = f"correct {path} ({documented} lists the settings)"
    try:
        return model.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}", remedy) from error
    except ValidationError as error:
        raise ConfigError(f"{what} {path} is not valid: {invalid_settings(error)}", remedy) from error


def invalid_settings(error: ValidationError) -> str:
    """The settings of a file that are wrong, each with what is wrong."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())


def load_feed(path: Path) -> Feed:
    """Read one feed file. Raises ConfigError that names the file, the setting and what is wrong."""
    return read_yaml(path, Feed, "the feed file", "docs/settings.md")


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
    errors = []
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
    return feeds, errors


def named_feed(folder: Path, name: str) -> Feed:
    """The feed of that name; other files may be broken. Raises ConfigError if there is none."""
    feeds, errors = readable_feeds(folder)
    if name in feeds:
        return feeds[name]
    said = f"there is no feed {name!r} in {folder}"
    if errors:
        # Its own file may be one of those that cannot be read.
        raise ConfigError("; ".join([said, *(error.message for error in errors)]), errors[0].remedy)
    near = meant(name, feeds)
    choice = f"did you mean {near!r}?" if near else f"name one of {', '.join(feeds) or 'none'}"
    raise ConfigError(said, f"{choice} (CHANGELEDGER_FEEDS is the folder of the feed files)")
