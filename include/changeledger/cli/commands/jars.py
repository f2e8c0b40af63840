"""`changeledger jars`."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from changeledger.cli.lake import say
from changeledger.config.settings import Settings
from changeledger.jars.fetching import SetupError, ensure
from changeledger.jars.java import java
from changeledger.model.errors import ConfigError

_NAME = "spark"


def jars() -> None:
    """Fetch the jars that Spark needs beside its own into CHANGELEDGER_JARS, as locked.

    Each is checked by its checksum; what is there already stays. Run it again after an upgrade, and when the
    lake moves to S3, whose client it fetches then.
    """
    # Imported here because it imports SQLAlchemy, which the other commands do not need.
    from changeledger.spark.lake_catalog import is_on_s3  # noqa: PLC0415

    settings = Settings()
    if settings.jars.name != _NAME:
        raise ConfigError(
            f"CHANGELEDGER_JARS is {settings.jars}",
            f"set it to a folder called {_NAME!r}, into which the jars are fetched",
        )
    configurations = [_NAME, *([f"{_NAME}-s3"] if is_on_s3(settings.catalog) else [])]
    target = settings.jars.parent
    # pyspark ships Ivy. Finding the file is faster than importing pyspark.
    (ivy,) = Path(str(distribution("pyspark").locate_file("pyspark/jars"))).glob("ivy-*.jar")
    try:
        ensure(configurations, target, ivy, java(), target / "ivy.log", say)
    except SetupError as error:
        what, remedy = error.parts
        raise ConfigError(what, remedy or "run it again") from None
    except OSError as error:
        raise ConfigError(
            f"{error.filename or target} cannot be written: {error.strerror}",
            f"set CHANGELEDGER_JARS to a folder {_NAME!r} in one that you may write to, or ask its owner",
        ) from None
    say(f"the jars are in {', '.join(str(target / name) for name in configurations)}")
