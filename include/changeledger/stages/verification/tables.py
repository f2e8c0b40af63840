"""Compares one published table with rows of the source, and explains the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pyiceberg.expressions import BooleanExpression

from changeledger.compare.columns import Columns
from changeledger.config.feed import Feed
from changeledger.control.outcomes import DRIFTED, PROVEN, WAITING
from changeledger.kernels.arrow import column
from changeledger.kernels.publishing import PublishRows, key_id
from changeledger.kernels.rows import Part, Rows, bucketed, chosen, together
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.model.publishing import PublishRule
from changeledger.stages.common.publishing import secret_of
from changeledger.stages.common.stored import Ledger, Readable
from changeledger.verify import drift, judging, sums, verdicts, versions
from changeledger.verify.fence import Fence
from changeledger.verify.sums import Sums
from changeledger.verify.versions import CURRENT, HISTORY, SOURCE, Read

# Up to this many keys are looked up by their hashes; for more, all rows are read.
_FEW = 20_000


class Judged(NamedTuple):
    """The verdicts on single keys.

    `counts`: keys by verdict, and `unknown` cells. `wrong`: `many` rows of `judging.JUDGED`.
    `loaded_later`: number of keys whose rows the feed has loaded after the source was read.
    """

    counts: dict[str, int]
    wrong: Rows
    many: int
    loaded_later: int

    def outcome(self, is_sent: bool) -> str:
        """Returns the outcome of the proof.

        `is_sent`: whether the feed must by now have published everything that was read from the source.
        If the feed has loaded rows later, rows that it lacks may have been deleted before that load, so they
        are no certain drift.
        """
        certain = self.many - (self.counts[verdicts.MISSING] if self.loaded_later else 0)
        if is_sent and certain:
            return DRIFTED
        return WAITING if self.many or self.loaded_later else PROVEN


@dataclass(frozen=True)
class Proof:
    """The proof of one table.

    `parts`: the rows read from the source, and the current rows and history of a release.
    `columns`: pairs the snapshot's columns (first) with the published ones.
    """

    parts: Mapping[int, Readable]
    columns: Columns
    fence: Fence

    def summed(self) -> Sums:
        """Compares hashes of buckets of rows."""
        narrow = partial(versions.narrow, columns=self.columns)
        rows = together([of_part.through(narrow, versions.NARROW) for of_part in self._versions(None)])
        outputs = bucketed({sums.ROWS: Part(rows, sums.KEY)}, sums.summed, {sums.SUMS: sums.SCHEMA})
        return sums.whole(outputs[sums.SUMS].collected())

    def judged(self, summed: Sums) -> Judged:
        """Compares single keys: those in buckets that differ, and those that hashes cannot judge."""
        rows = together(self._versions(summed.looked_at))
        kernel = partial(judging.judge, columns=self.columns, differing=summed.differing)
        outputs = bucketed({judging.ROWS: Part(rows, versions.KEY)}, kernel, judging.OUTPUTS)
        counts = dict.fromkeys((*verdicts.VERDICTS, verdicts.LOADED_LATER, "unknown"), 0)
        for row in outputs[judging.COUNTS].collected().to_pylist():
            counts[row["verdict"]] += row["keys"]
            counts["unknown"] += row["unknown"]
        many = sum(counts[verdict] for verdict in verdicts.DRIFTS)
        return Judged(counts, outputs[judging.WRONG], many, counts.pop(verdicts.LOADED_LATER))

    def explained(self, judged: Judged) -> Rows:
        """Explains the wrong keys in values that people can look up (`drift.EXPLAINED`)."""
        keys = None
        if judged.many <= _FEW:
            keys = column(judged.wrong.collected(), "key_1").to_pylist()
        shown = [
            self.parts[part]
            .rows(self._read(part).needed)
            .through(drift.Show(self._read(part), keys), drift.SHOWN)
            for part in (SOURCE, CURRENT, HISTORY)
        ]
        parts = {
            drift.WRONG: Part(judged.wrong, drift.KEY),
            drift.ROWS: Part(together(shown), drift.KEY),
        }
        kernel = drift.Explain(self.columns.names)
        return bucketed(parts, kernel, {drift.EXPLAINED_ROWS: drift.EXPLAINED})[drift.EXPLAINED_ROWS]

    def _read(self, part: int) -> Read:
        return Read(part, self.columns, self.fence)

    def _versions(self, buckets: list[int] | None) -> list[Rows]:
        """Reads `versions.VERSIONS` of all parts. `buckets`: only rows in these; None for all."""
        of_parts = []
        for part in (SOURCE, CURRENT, HISTORY):
            read = self._read(part)
            rows = self.parts[part].rows(read.needed)
            make = partial(versions.make_versions, read=read, buckets=buckets)
            of_parts.append(rows.through(make, versions.VERSIONS))
        return of_parts


def concluded(explained: Rows, ledger: Ledger, kernel: drift.Conclude) -> dict[str, Rows]:
    """Concludes `drift.DRIFTS` and `drift.REPAIRS` from `drift.EXPLAINED` and the last change of each key."""
    last = chosen(explained, ["last_change_id"])
    parts = {
        drift.EXPLAINED_ROWS: Part(explained, drift.key_of_explained),
        drift.LEDGER: Part(ledger.among(drift.OF_LEDGER, "change_id", last), drift.KEY_OF_LEDGER),
    }
    return bucketed(parts, kernel, drift.OUTPUTS)


@dataclass(frozen=True)
class PublishedSource:
    """Rows of a source, converted to the published columns of a contract."""

    stored: Readable
    contract: Contract
    secret: str

    def rows(self, names: Sequence[str], where: BooleanExpression | None = None) -> Rows:
        publish = PublishRows(self.contract, self.secret, names)
        return self.stored.rows(publish.needed, where).through(publish, publish.schema)


def published_rows(
    feed: Feed, stored: Readable, read: Mapping[str, Any], contract: Contract
) -> tuple[Columns, Readable]:
    """Returns the columns in which source rows are compared with published ones, and the source rows.

    `read`: the contract by which the rows were read, as JSON. `contract`: the feed's, with the source's
    columns. Raises ConfigError if the secret of hashes is missing or not that of the published rows.
    """
    source = _as_the_feed(Contract.model_validate(read), contract)
    columns = Columns.of(source.published, contract.published)
    if source.published == source:
        return columns, stored
    secret = secret_of(feed, source)
    if any(c.hash_key not in {None, key_id(secret)} for c in source.columns):
        raise ConfigError(
            f"{feed.feed}: CHANGELEDGER_HASH_KEY is not the key with which {contract.table} is published",
            "set it to that key, for commands as well as for Airflow's workers",
        )
    return columns, PublishedSource(stored, source, secret)


def _as_the_feed(read: Contract, contract: Contract) -> Contract:
    """Returns the contract of the read columns with the feed's publishing rules."""
    rules = {c.name.lower(): c for c in contract.columns}
    columns = [_like(c, rules[c.name.lower()]) for c in read.columns if c.name.lower() in rules]
    return read.model_copy(update={"columns": tuple(columns)})


def _like(read: Column, published: Column) -> Column:
    """Returns the read column with the feed's rule, but without its cast if the column was read in another
    type than the feed's."""
    rule = published.publish
    if rule is not None and rule.cast and read.spark_type != published.spark_type:
        rule = PublishRule(rename=rule.rename) if rule.rename else None
    return read.model_copy(update={"publish": rule, "hash_key": published.hash_key})
