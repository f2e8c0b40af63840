"""Who is told of which events: Airflow's notifiers, as named in the YAML of a feed or a database."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from pydantic import Field

from changeledger.model.base_model import Strict

Event = Literal["failed", "late", "quarantined", "disagreeing", "drifting", "recovered"]
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
# The events of a feed, and those of a database.
OF_FEEDS: Final[frozenset[Event]] = frozenset({"failed", "late", "quarantined", "recovered"})
OF_DATABASES: Final[frozenset[Event]] = frozenset({"failed", "disagreeing", "drifting", "recovered"})


class Notify(Strict):
    """One notifier. Its class is looked up, and its arguments are checked, when Airflow parses the DAGs."""

    notifier: str = Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    """The class of an Airflow notifier by its full name, such as
    `airflow.providers.smtp.notifications.smtp.SmtpNotifier`."""
    arguments: dict[str, Any] = Field(default={}, alias="with")
    """The notifier's arguments. Those for the text and the subject are filled in unless you state them
    ([running.md](running.md#who-is-told)). Secrets belong in Airflow connections."""
    on: tuple[Event, ...] = Field(default=EVENTS, min_length=1)
    """The events that it reports."""
    quarantined_above: int = Field(default=0, ge=0)
    """`quarantined` is reported if a run has more quarantined records than this."""


def telling(notify: tuple[Notify, ...], events: frozenset[Event]) -> tuple[Notify, ...]:
    """Returns the notifiers. Raises ValueError for one that has none of the `events`.

    It may have others as well, so that feeds and databases can share a list.
    """
    for notifier in notify:
        if events.isdisjoint(notifier.on):
            said, there_are = ", ".join(notifier.on), ", ".join(sorted(events))
            raise ValueError(f"{notifier.notifier} would never report {said}: here `on:` can be {there_are}")
    return notify
