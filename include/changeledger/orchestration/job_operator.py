"""The Airflow operator of job scripts, by spark-submit or Spark Connect depending on the Spark connection."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowNotFoundException,
    AirflowRescheduleException,
    DownstreamTasksSkipped,
)

from changeledger import exit_codes
from changeledger.config.connection import connection_variable
from changeledger.config.settings import Settings
from changeledger.jobs import script
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant
from changeledger.orchestration import links
from changeledger.orchestration.ending import Failed, JobLines, UnlessFinal
from changeledger.spark.session import jars, local_conf

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context


# Not passed to jobs: Airflow's settings (keys, its database), connections and variables, and another server.
_NOT_OF_JOBS = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "SPARK_REMOTE")
# How often a run checks whether the feed is free. Waiting takes no slot; checking starts a process.
_WAIT = timedelta(seconds=20)
# Airflow's TriggerDagRunOperator puts this into the conf if OpenLineage is installed.
_LINEAGE = "openlineage"


class JobOperator(SparkSubmitOperator):
    """Runs the script of a job (`changeledger.jobs`) with `arguments`.

    The Spark connection is read when the task runs. `spark` submits to its master, in client mode;
    `spark_connect` runs the script as plain Python attached to the running server.
    The job gets the source's connection, if there is one, only in its process' environment.
    With `asks_first`, the script runs without Spark first, and is submitted only if it needs Spark.
    """

    asks_first = False

    def __init__(
        self,
        *,
        job: str,
        arguments: Sequence[str],
        name: str,
        spark_connection: str,
        source_connection: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=str(script(job)),
            application_args=[*arguments],
            conn_id=spark_connection,
            name=name,
            retry_policy=UnlessFinal(),
            **kwargs,
        )
        self.source_connection = source_connection
        self.spark_connection = spark_connection
        self._process: subprocess.Popen[str] | None = None
        self._lines = JobLines()
        self._is_killed = False

    def execute(self, context: Context) -> None:
        try:
            self._run(context)
        except (ConfigError, Failed) as error:
            for line in str(error).splitlines():
                self.log.error("%s", line)
            if isinstance(error, Failed):
                raise
            raise Failed(str(error)) from None

    def _run(self, context: Context) -> None:
        self._refuse_unknown(context["dag_run"].conf or {})
        spark = _connection(self.spark_connection, 'for example {"conn_type": "spark", "host": "local[*]"}')
        environment = _job_environment() | _lake()
        if self.source_connection is not None:
            source = _connection(self.source_connection, "with the host and login of the feed's source")
            environment[connection_variable(self.source_connection)] = source.as_json()
        if spark.conn_type == "spark_connect":
            url = SparkConnectHook(self.spark_connection).get_connection_url()
            self._run_attached({**environment, "SPARK_REMOTE": url})
        elif spark.conn_type == "spark":
            self._require_client(spark)
            if not self.asks_first or self._run_attached(environment, "--no-spark") == exit_codes.NEEDS_SPARK:
                self._submit(context, spark, environment)
        else:
            raise ConfigError(
                f"the connection {self.spark_connection!r} has the type {spark.conn_type!r}",
                "make it `spark` or `spark_connect`",
            )

    def _refuse_unknown(self, conf: Iterable[str]) -> None:
        """Raises ConfigError for a member of a run's conf that is not in the form. Airflow accepts any."""
        known = sorted(self.dag.params)
        wrong = sorted(name for name in conf if name not in known and name != _LINEAGE)
        if wrong:
            near = meant(wrong[0], known)
            remedy = f"did you mean `{near}`?" if near else f"there are {', '.join(known) or 'no members'}."
            raise ConfigError(
                f"the conf of this run has a member `{wrong[0]}`, which its DAG does not know",
                f"{remedy} Trigger the DAG again",
            )

    def _require_client(self, spark: Connection) -> None:
        if spark.extra_dejson.get("deploy-mode") == "cluster":
            # The driver would run elsewhere, and its secrets would have to be on the command line.
            raise ConfigError(
                f"the connection {self.spark_connection!r} asks for deploy-mode cluster", "set it to client"
            )
        if (spark.host or "").startswith("k8s://") and find_spec("airflow.providers.cncf") is None:
            # The Spark provider would raise a NameError.
            raise ConfigError(
                f"the connection {self.spark_connection!r} has a Kubernetes master, which the Spark provider "
                "submits to with apache-airflow-providers-cncf-kubernetes",
                "install that package in addition to the locked requirements",
            )

    def _submit(self, context: Context, spark: Connection, environment: dict[str, str]) -> None:
        lake = environment.get("CHANGELEDGER_CATALOG")
        settings = Settings(catalog=json.loads(lake)) if lake else Settings()
        if (spark.host or "").startswith("local"):
            self.conf = local_conf(settings)
        else:
            self.jars = ",".join(jars(settings))
        hook = self._hook = self._get_hook()
        log_lines = hook._process_spark_submit_log

        def log_but_error(itr: Iterator[Any]) -> None:
            self._end_if_killed()
            log_lines(text for _, text in self._lines.of(itr))

        hook._process_spark_submit_log = log_but_error  # type: ignore[method-assign]
        try:
            # Not by `env_vars`: on YARN and Kubernetes the hook writes these on the command line.
            with _as_environment(environment):
                super().execute(context)
        except AirflowException as error:
            if hook._submit_sp is None:
                raise
            raise self._end_by(hook._submit_sp.returncode) from error
        except FileNotFoundError as error:
            raise ConfigError(
                f"{error.filename} is not on the PATH", "install the locked requirements.txt"
            ) from None
        self._log_kept()

    def _run_attached(self, environment: dict[str, str], *more: str) -> int:
        """Runs the script as plain Python. Returns 0, or the code that says that it needs Spark."""
        command = [sys.executable, self.application, *map(str, self.application_args or []), *more]
        self.log.info("Running %s", " ".join(command))
        # A process session of its own, so that on_kill reaches everything that the job started.
        with subprocess.Popen(  # noqa: S603 - our own script and arguments
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self._process = process
            self._end_if_killed()
            for level, text in self._lines.of(process.stdout or ()):
                self.log.log(level, "%s", text)
        if process.returncode not in (0, exit_codes.NEEDS_SPARK):
            raise self._end_by(process.returncode)
        self._log_kept()
        return process.returncode

    def _log_kept(self) -> None:
        for level, text in self._lines.kept():
            self.log.log(level, "%s", text)

    def _end_by(self, returncode: int) -> BaseException:
        """Returns the exception by which Airflow does what the exit code asks. Unknown codes are retried."""
        if returncode == exit_codes.HELD:
            # A held lease is not an error of this task.
            self.log.info("%s", "\n".join(text for _, text in self._lines.kept()))
            again = datetime.now(UTC) + _WAIT
            self.log.info(
                "Another process has the lease; see above. Retries automatically at %s; this does not count "
                "as a try",
                again,
            )
            return AirflowRescheduleException(again)  # type: ignore[no-untyped-call]
        if returncode == exit_codes.NOTHING:
            self._log_kept()
            self.log.info("Nothing is left to do for this window: the tasks that follow are skipped")
            skipped = sorted(self.get_flat_relative_ids(upstream=False))
            return DownstreamTasksSkipped(tasks=skipped)  # type: ignore[no-untyped-call]
        final = returncode == exit_codes.FINAL
        if self._lines.error and returncode in (exit_codes.FINAL, exit_codes.RETRY):
            return Failed("\n".join(self._lines.error), final=final)
        # The job failed with a traceback, or was killed.
        end, reason = exit_codes.in_words(returncode), "".join(f": {line}" for line in self._lines.error[-1:])
        self._log_kept()
        return Failed(f"{self.task_id} {end}{reason}; see the log above", final=final)

    def on_kill(self) -> None:
        self._is_killed = True
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._hook is not None:
            super().on_kill()

    def _end_if_killed(self) -> None:
        """Ends a job that has just started if the kill came before it, such as between two processes."""
        if self._is_killed:
            self.on_kill()


@contextmanager
def _as_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Replaces this process' environment, for processes started meanwhile. A task is alone in its process."""
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _connection(conn_id: str, what: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"the Airflow connection {conn_id!r} does not exist",
            f"create it under Admin > Connections or with `airflow connections import`, {what}; "
            "or name another one in the feed's YAML. Then clear the failed task",
        ) from None


def _lake() -> dict[str, str]:
    """Returns the setting of the lake's catalog with the credentials of its connection, if it has one."""
    settings = Settings()
    if not settings.catalog_connection:
        return {}
    lake = _connection(settings.catalog_connection, "with the credentials of the lake in its `extra`")
    return {"CHANGELEDGER_CATALOG": json.dumps(_with_credentials(settings.catalog, lake))}


def _with_credentials(catalog: Mapping[str, str], connection: Connection) -> dict[str, str]:
    """Returns the lake's catalog with the members of the connection's `extra`.

    Host and password are a REST catalog's address and token. With a login, login and password are a client's
    id and secret.
    """
    members = dict(catalog)
    if connection.host:
        members["uri"] = connection.host
    if connection.password:
        name = "credential" if connection.login else "token"
        members[name] = ":".join(filter(None, (connection.login, connection.password)))
    extra = connection.extra_dejson
    return members | {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in extra.items()
    }


def _job_environment() -> dict[str, str]:
    """Returns this process' environment (with CHANGELEDGER_*), with this Python, without Airflow's secrets.

    A job gets only its source's connection and none of Airflow's keys.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OF_JOBS)}
    return {
        **environment,
        # People read the log in Airflow, so pages are named by link.
        "CHANGELEDGER_PAGES_URL": links.data_docs(),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }
