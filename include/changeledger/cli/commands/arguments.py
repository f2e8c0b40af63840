"""Arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Feed = Annotated[str, typer.Argument(help="The feed's name.", metavar="FEED")]
Database = Annotated[str, typer.Argument(help="As the feeds' YAML names it.", metavar="DATABASE")]
By = Annotated[str, typer.Option(metavar="NAME", help="Who asks for it; your login's name by default.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per row instead of a table.")]
