"""Publishing rules of a feed's YAML, and whether they agree with what is published already."""

from __future__ import annotations

from typing import Final

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.dialects.tables.interface import Hidden
from changeledger.kernels.publishing import key_id
from changeledger.model.column_names import shown
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.model.table_names import TableNames

# Least number of characters of a secret that cannot be guessed.
_SHORTEST: Final = 16


def as_stated(feed: Feed, contract: Contract) -> Contract:
    """Returns the source's contract with the publishing rules of the YAML.

    Raises ContractError if a rule cannot be applied, and ConfigError if the secret of hashes is missing.
    """
    stated = _stated(feed, contract, only_known=False)
    stated.published.checked()
    return stated


def require_as_published(feed: Feed, contract: Contract) -> None:
    """Raises ConfigError if the rules or the secret have changed: one table would have rows of both kinds."""
    stated = _stated(feed, contract, only_known=True)
    pairs = zip(contract.columns, stated.columns, strict=True)
    changed = [(old, new) for old, new in pairs if (old.publish, old.hash_key) != (new.publish, new.hash_key)]
    if not changed:
        return
    said = "; ".join(
        f"{shown([old.name])} was published {_words(old)}, but is now to be published {_words(new)}"
        for old, new in changed
    )
    if all(old.publish == new.publish for old, new in changed):
        said = "CHANGELEDGER_HASH_KEY is not the key with which the published rows were hashed"
    raise ConfigError(
        f"{feed.feed}: {contract.table}: {said}. One table would have rows of both kinds, so nothing "
        "was changed",
        "put it back; or give the feed a new name (`feed:`), which publishes from the beginning under that "
        "name, and drop the tables of the old one",
    )


def require_names(control: ControlStore, *feeds: Feed) -> None:
    """Raises ConfigError if a new table has the lake name of a table that its feed has published already.

    Different names in the source can give the same name in the lake.
    """
    for feed in feeds:
        _require_names(control, feed)


def _require_names(control: ControlStore, feed: Feed) -> None:
    published = control.contracts.tables(feed.feed)
    owners = {
        name: table
        for table in published
        for names in [TableNames.of(feed.namespace, table)]
        for name in (names.raw, *names)
    }
    for table, names in feed.names.items():
        taken = [name for name in (*names, names.raw) if name in owners]
        if taken and table not in published:
            owner = owners[taken[0]]
            raise ConfigError(
                f"{feed.feed}: {table} would be written into {taken[0]}, which has the rows of {owner}",
                f"write it as {owner} in `tables:` if it is that table; if it is a different table, or "
                "was renamed, give it a feed of its own, with another `feed:` name",
            )


def secret(feed: Feed) -> str:
    """Returns the secret of hashes. Raises ConfigError if it is not set or too short."""
    hash_key = Settings().hash_key
    if len(hash_key) < _SHORTEST:
        raise ConfigError(
            f"{feed.feed}: `publish:` hashes columns, and CHANGELEDGER_HASH_KEY is "
            + ("shorter than 16 characters" if hash_key else "not set"),
            "set it for Airflow's workers and for commands, for example to the output of `openssl rand "
            "-hex 32`, and keep it: rows that are hashed with another key match nothing",
        )
    return hash_key


def secret_of(feed: Feed, contract: Contract) -> str:
    """Returns the secret if the contract hashes columns, else ""."""
    return secret(feed) if any(c.hash_key for c in contract.columns) else ""


def hidden(feed: Feed, table: str) -> Hidden:
    """Returns the columns that positions of change table rows must not reveal.

    Raises ConfigError if columns are hashed and the secret is missing.
    """
    config = feed.table(table)
    rules = {} if config is None else config.publish.columns
    left_out = frozenset(name.lower() for name, rule in rules.items() if rule.drop)
    hashed = frozenset(name.lower() for name, rule in rules.items() if rule.hash)
    return Hidden(left_out, hashed, secret(feed) if hashed else "")


def _stated(feed: Feed, contract: Contract, *, only_known: bool) -> Contract:
    """Returns the contract with the rules. `only_known`: ignores rules for columns that it does not have."""
    config, known = feed.table(contract.table), {c.name.lower() for c in contract.columns}
    rules = {} if config is None else dict(config.publish.columns)
    if only_known:
        rules = {name: rule for name, rule in rules.items() if name.lower() in known}
    hashes = any(rule.hash for rule in rules.values())
    return contract.published_by(rules, key_id(secret(feed)) if hashes else None)


def _words(column: Column) -> str:
    return "as it is" if column.publish is None else f"with `{column.publish.words}`"
