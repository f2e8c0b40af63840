"""URLs of databases, with their passwords, as the environment has them."""

from __future__ import annotations

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError


def database_url(text: str) -> URL | None:
    """The URL; None if the text is none.

    Nor is it one if a password has an `@` that is not written `%40`: what follows that would be taken for
    the host or the database, whose names are in errors.
    """
    try:
        url = make_url(text)
    # Not their own words: they may quote the password.
    except (ArgumentError, ValueError):
        return None
    is_file = url.get_backend_name() == "sqlite"
    is_cut = "@" in (url.host or "") or (not is_file and "@" in (url.database or ""))
    return None if is_cut else url
