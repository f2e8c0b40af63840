"""`changeledger init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from changeledger.cli.project.files import FEEDS, files, write
from changeledger.console import terminal

_DIALECTS = ", ".join(sorted(FEEDS))


def _known(dialects: list[str]) -> list[str]:
    for dialect in dialects:
        if dialect not in FEEDS:
            raise typer.BadParameter(f"{dialect!r} is not one of {_DIALECTS}")
    return list(dict.fromkeys(dialects))


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write the project to.")],
    dialect: Annotated[
        list[str],
        typer.Option(help=f"The dialect of a feed: {_DIALECTS}. May be repeated.", callback=_known),
    ],
) -> None:
    """Write a project: DAG files, an example of a feed, and what Airflow's environment needs.

    No file that exists is overwritten.
    """
    project = folder.absolute()
    texts = files(project, dialect)
    write(project, texts)
    out = terminal.console()
    for path in texts:
        out.print(terminal.plain(project / path), soft_wrap=True)
    out.print(terminal.plain(f"\nThe next steps are in {project / 'README.md'}"), soft_wrap=True)
