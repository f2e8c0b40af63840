"""The key of the row that a published change is about."""

from __future__ import annotations

from pyiceberg.expressions import And, EqualTo

from changeledger.model.errors import ConfigError
from changeledger.state.cells import key_texts
from changeledger.state.life import Place


def key_of_change(place: Place, change_id: str, lsn: str = "", *, before: bool = False) -> dict[str, str]:
    """`lsn`: its commit LSN as hex, by which files are passed over; `before`: the key that the row had before
    the change moved it. Raises ConfigError if no such change is published."""
    ledger, side = place.ledger(), "previous_key" if before else "key"
    wheres = [EqualTo("change_id", change_id)]  # type: ignore[call-arg, arg-type]
    try:
        wheres += [EqualTo("commit_lsn", bytes.fromhex(lsn))] if lsn else []  # type: ignore[call-arg, arg-type]
    except ValueError:
        raise ConfigError(f"{lsn!r} is no LSN", "follow the link on the page again") from None
    where = wheres[0] if len(wheres) == 1 else And(*wheres)
    keys = ledger.scan(where, selected_fields=(side,), limit=1).to_arrow().column(side).to_pylist()
    if not keys or keys[0] is None:
        raise ConfigError(
            f"{place.feed} has published no such change of {place.table}",
            "it was compared before the release was taken back, or the table was built again",
        )
    return key_texts(keys[0])
