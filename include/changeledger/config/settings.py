"""The settings of an installation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from changeledger.config.object_path import S3, ObjectPath, PagePath
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant

_PREFIX = "CHANGELEDGER_"
_ALIKE = 0.8
_OF_A_SERVICE = re.compile(r"_SERVICE_HOST$|_PORT(_|$)")
# The root of the checkout, if the package is part of one.
PROJECT = Path(__file__).resolve().parents[3]
_IS_CHECKOUT = (PROJECT / "include" / "changeledger").is_dir()


def _below_project(*parts: str) -> Any:
    """Returns the field of a folder of the project. In a checkout, edited folders are in `include/`."""

    def place(settings: Mapping[str, Any]) -> Path:
        is_edited, project = not parts[0].startswith("."), settings["project"]
        return Path(project, "include" if is_edited and project == PROJECT else "", *parts)

    return Field(default_factory=place, json_schema_extra={"default": "/".join(("<project>", *parts))})


def _refused(setting: str, why: str) -> ConfigError:
    name = f"{_PREFIX}{setting.partition('.')[0].upper()}"
    return ConfigError(
        f"{name} is not valid: {setting}: {why}",
        f"correct {name} in the environment (docs/settings.md lists the settings)",
    )


def _refuse_misspelt(known: Iterable[str]) -> None:
    """Raises ConfigError for a variable that is almost a setting, because its value would have no effect.

    Other variables belong to somebody else, such as those of a Kubernetes service named `changeledger`.
    """
    for name, value in os.environ.items():
        setting = name.removeprefix(_PREFIX).lower()
        if not (value and name.startswith(_PREFIX)) or setting in known or _OF_A_SERVICE.search(name):
            continue
        if near := meant(setting, known, _ALIKE):
            right = f"{_PREFIX}{near.upper()}"
            raise ConfigError(
                f"{name} is not a setting, did you mean {right}?", f"set {right}, or unset {name}"
            )


class Settings(BaseSettings):
    """The settings of the installation.

    Every setting is an environment variable `CHANGELEDGER_<SETTING>`. An empty variable counts as unset.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, frozen=True)

    def __init__(self, **given: Any) -> None:
        """Raises ConfigError that names the variable but does not show its value, which may be a secret."""
        _refuse_misspelt(type(self).model_fields)
        try:
            super().__init__(**given)
        except SettingsError:
            raise _refused("catalog", "it is not a JSON object") from None
        except ValidationError as error:
            wrong = error.errors()[0]
            raise _refused(".".join(map(str, wrong["loc"])), wrong["msg"]) from None

    project: Annotated[Path, AfterValidator(Path.absolute)] = Field(
        default_factory=lambda: PROJECT if _IS_CHECKOUT else Path.cwd()
    )
    """The project's folder, as `changeledger init` writes it ([deploy.md](deploy.md)). Default: the checkout
    that changeledger runs from, or for an installed package the current folder."""
    home: Path = _below_project(".changeledger")
    """The folder of this installation. It has Data Docs and logs, and also the catalog, control store and
    warehouse unless they are set."""
    feeds: Path = _below_project("feeds")
    """The folder of the feeds' YAML files; in a checkout `include/feeds`."""
    databases: Path = _below_project("databases")
    """The folder of the databases' YAML files; in a checkout `include/databases`."""
    jars: Path = _below_project(".jars", "spark")
    """The folder of Spark's additional jars; `changeledger jars` fetches them."""
    control_url: str = ""
    """The SQLAlchemy URL of the control store, such as `postgresql+psycopg://...`. Default: an SQLite file
    below the home."""
    catalog: dict[str, str] = Field(default={}, repr=False)
    """Iceberg's catalog as a JSON object whose values are texts, with pyiceberg's properties. Spark's
    settings are derived from it. `type`: `sql` (the default) or `rest`. `uri`: for `sql` an SQLAlchemy URL
    such as `postgresql+psycopg://...` (default: an SQLite file below the home); for `rest` the server's
    address. `warehouse`: where data files are stored, a path or URI that all of Spark's machines see, such as
    `s3://bucket/lake` (default for `sql`: `warehouse` below the home). `s3.*`: how S3 is reached. The value
    appears on no command line. `docs/lake.md` has examples."""

    catalog_connection: str = ""
    """The Airflow connection with the lake's credentials. The properties in its `extra`, such as
    `s3.secret-access-key`, are added to `CHANGELEDGER_CATALOG` in the environment of jobs."""
    pages: str = ""
    """Where Data Docs and reports are stored: a folder, or `s3://bucket/folder`, reached by `s3.*` of
    `CHANGELEDGER_CATALOG`. On S3, jobs and Airflow's API server need no shared disk. Default: `data_docs`
    below the home."""
    redact_values: bool = False
    """`true`: logs, errors and pages show `***` for keys and values of rows. They show only the type of
    errors that other systems raise. Spark's log is off (that of a Connect server only if the server starts
    with this setting). The lake and commands still show values."""
    hash_key: str = Field(default="", repr=False)
    """The secret key of `hash` in `publish:` ([publishing.md](publishing.md)): 16 characters or more. It must
    be the same for jobs and commands, and must never change."""
    pages_url: str = ""
    """The address at which Airflow serves the Data Docs; Airflow's tasks set it. If it is set, logs and
    errors name pages by link, otherwise by file."""

    @field_validator("pages")
    @classmethod
    def _known_store(cls, pages: str) -> str:
        if "://" in pages and not pages.startswith(S3):
            raise ValueError("pages can be stored in a folder or in s3://bucket/folder")
        return pages

    @model_validator(mode="after")
    def _embedded_defaults(self) -> Settings:
        """Defaults to SQLite files below `home`."""
        home = self.home.absolute()
        # In a URL, `%` escapes, and `?` ends the path.
        url = f"sqlite:///{home}".replace("%", "%25").replace("?", "%3F")
        object.__setattr__(self, "home", home)
        if not self.control_url:
            object.__setattr__(self, "control_url", f"{url}/control.db")
        if self.catalog.get("type", "sql") == "sql":
            embedded = {"uri": f"{url}/catalog.db", "warehouse": f"{home}/warehouse"}
            object.__setattr__(self, "catalog", {"type": "sql", **embedded, **self.catalog})
        return self

    @property
    def warehouse(self) -> str:
        """The warehouse; empty if only the catalog's server knows it."""
        return self.catalog.get("warehouse", "")

    @property
    def data_docs(self) -> PagePath:
        if self.pages.startswith(S3):
            return ObjectPath.of(self.pages, self.catalog)
        return Path(self.pages).absolute() if self.pages else self.home / "data_docs"

    def address(self, page: PagePath) -> str:
        """Returns where people open a page of the Data Docs: its link, or its file."""
        if not self.pages_url:
            return str(page)
        return self.pages_url.rstrip("/") + str(page).removeprefix(str(self.data_docs))
