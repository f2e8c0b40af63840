"""The log of a source that people watch for hours: some tables, and in some hours all, do not change."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sourcelab import shop_values
from sourcelab.log import Log, Simulator
from sourcelab.tables import TABLES

_HOUR = timedelta(hours=1)
_ALL = frozenset(table.full_name for table in TABLES)
_OFTEN = frozenset({"dbo.customers", "sales.orders"})
# The tables that do not change in each of four consecutive hours; then the cycle repeats.
_QUIET = (frozenset[str](), _ALL - _OFTEN, _ALL, _OFTEN)
# The number of past hours in the log.
PAST_HOURS = len(_QUIET)
_IN_AN_HOUR = 66


class Traffic:
    """The traffic of a source. `now` is when it starts; all tables change in that hour."""

    def __init__(self, seed: int, now: datetime) -> None:
        self.begin = now.replace(minute=0, second=0, microsecond=0) - PAST_HOURS * _HOUR
        self._simulator = Simulator(seed, self.begin, shop_values.value)
        first = self._simulator.transaction(initial=True)
        self.log = Log(TABLES, (replace(first, begin_time=self.begin, commit_time=self.begin),))
        for hour in range(PAST_HOURS):
            for at in range(1, _IN_AN_HOUR + 1):
                self.add(self.begin + hour * _HOUR + at * _HOUR / (_IN_AN_HOUR + 1))

    def quiet(self, moment: datetime) -> frozenset[str]:
        """Returns the tables that do not change in the hour of `moment`."""
        return _QUIET[(moment - self.begin) // _HOUR % len(_QUIET)]

    def add(self, moment: datetime) -> bool:
        """Adds a transaction at `moment` to the log, unless its hour is quiet. Returns whether it did."""
        quiet = self.quiet(moment)
        if quiet == _ALL:
            return False
        time = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        transaction = replace(self._simulator.transaction(quiet=quiet), begin_time=time, commit_time=time)
        self.log = Log(TABLES, (*self.log.transactions, transaction))
        return True
