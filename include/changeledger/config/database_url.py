"""URLs of databases, with passwords, from the environment."""

from __future__ import annotations

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError


def database_url(text: str) -> URL | None:
    """Parses a URL. Returns None if the text is not a URL.

    A password with an `@` that is not written `%40` makes it invalid, too: the rest of the password would be
    taken for the host or the database, whose names appear in errors.
    """
    try:
        url = make_url(text)
    # The errors' own text may quote the password.
    except (ArgumentError, ValueError):
        return None
    is_file = url.get_backend_name() == "sqlite"
    is_cut = "@" in (url.host or "") or (not is_file and "@" in (url.database or ""))
    return None if is_cut else url
