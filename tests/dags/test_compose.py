"""docker-compose.yaml as Compose resolves it: valid, pinned, on loopback, no secrets, all files present."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from changeledger.config.connection import connection_variable
from changeledger.config.files import load_feeds
from changeledger.config.settings import PROJECT, Settings

FILE = PROJECT / "docker-compose.yaml"
EXAMPLE = PROJECT / ".env.example"
AIRFLOW = {
    "airflow-init",
    "airflow-api-server",
    "airflow-scheduler",
    "airflow-dag-processor",
    "airflow-triggerer",
}
ALWAYS = {*AIRFLOW, "postgres"}
SQLSERVER = {"sqlserver-2022", "sqlserver-2022-setup"}
SPARK = {"spark-master", "spark-worker"}
OF_PROFILE = {
    "kafka": {"kafka"},
    "sqlserver-2022": SQLSERVER,
    "sqlserver-2025": {"sqlserver-2025", "sqlserver-2025-setup"},
    "debezium": {"kafka", *SQLSERVER, "debezium", "debezium-register"},
    "ces": {"ces-setup"},
    "spark": SPARK,
    "connect": {*SPARK, "spark-connect"},
}
# Services that do one thing and exit.
ONE_SHOT = {"airflow-init", "sqlserver-2022-setup", "sqlserver-2025-setup", "ces-setup", "debezium-register"}
# Secrets that the user creates, and only the user knows.
BY_HAND = {"CES_KEY", "CES_LOGIN_PASSWORD"}
TELLING = re.compile(r"PASSWORD|SECRET|TOKEN|FERNET|_KEY$|SQL_ALCHEMY_CONN|CONTROL_URL")


def compose(*arguments: str, environment: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    """Runs Compose without an engine. `config` always exits with 0, so look at its errors."""
    binary = str(Path(sys.executable).with_name("docker-compose"))
    kept = {"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nonexistent"}
    return subprocess.run(
        [binary, "--env-file", str(environment), "-f", str(FILE), *arguments],
        env=kept, capture_output=True, text=True, check=False,
    )  # fmt: skip


@functools.cache
def resolved() -> dict[str, Any]:
    """The whole file, with anchors, variables and short forms resolved."""
    reported = compose("--profile", "*", "config", "--format", "json")
    assert reported.stderr == ""
    return dict(json.loads(reported.stdout))


def services() -> dict[str, dict[str, Any]]:
    return dict(resolved()["services"])


def secrets_of(service: dict[str, Any]) -> set[str]:
    """Returns the names under which a service finds its secrets."""
    return {Path(secret.get("target") or secret["source"]).name for secret in service.get("secrets", [])}


def arguments_of(service: dict[str, Any]) -> list[str]:
    check = service.get("healthcheck", {}).get("test", [])
    return [*(service.get("entrypoint") or []), *(service.get("command") or []), *check]


def test_what_each_profile_adds(tmp_path: Path) -> None:
    nothing = tmp_path / "env"
    nothing.touch()
    for profile, added in OF_PROFILE.items():
        reported = compose("--profile", profile, "config", "--services", environment=nothing)
        assert (reported.stderr, set(reported.stdout.split())) == ("", ALWAYS | added), profile
    assert set(services()) == ALWAYS.union(*OF_PROFILE.values())


def test_the_example_names_every_variable_and_no_secret() -> None:
    asked = set(re.findall(r"\$\{(\w+)", FILE.read_text("utf-8")))
    offered = set(re.findall(r"(?m)^(\w+)=", EXAMPLE.read_text("utf-8")))
    assert offered == asked | {"COMPOSE_PROFILES"}
    assert not [name for name in offered if TELLING.search(name)]


def test_images_are_pinned() -> None:
    # A release and, if someone has added it, the digest.
    release = re.compile(r":(\d+\.\d+(\.\d+)?|\d{4}-CU\d+)([.-][\w.-]+)?(@sha256:[0-9a-f]{64})?$")
    for service in services().values():
        assert release.search(service["image"]), service["image"]
    (base,) = re.findall(r"(?m)^FROM (\S+)", (PROJECT / "Dockerfile").read_text("utf-8"))
    assert release.search(base)


def test_ports_are_on_loopback_and_differ() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    published = [port["published"] for port in ports]
    assert len(set(published)) == len(published) == 8
    assert {service.get("network_mode") for service in services().values()} == {None}


# Services that are not read-only. The file says what their start writes.
WRITES = {"kafka", "debezium", "sqlserver-2022", "sqlserver-2025"}
ADDED = {
    "postgres": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"},
    "sqlserver-2022": {"NET_BIND_SERVICE"},
    "sqlserver-2025": {"NET_BIND_SERVICE"},
}


def test_services_can_do_no_more_than_they_need() -> None:
    for name, service in services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert set(service.get("cap_add", [])) == ADDED.get(name, set()), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("privileged", False) is False, name
        assert service.get("read_only", False) is (name not in WRITES), name
        assert int(service["mem_limit"]) > 0, name
        assert 0 < float(service["cpus"]) <= 8, name
        assert service["pids_limit"] > 0, name


def test_what_is_read_only_has_places_to_write() -> None:
    """The image's programs write below these folders.

    Native libraries are unpacked to /tmp and loaded from there.
    """
    for name, service in services().items():
        places = {place.partition(":")[0]: place.partition(":")[2] for place in service.get("tmpfs", [])}
        assert ("/tmp" in places) is bool(service.get("read_only")), name
        if service["image"].startswith("changeledger"):
            assert "exec" in places["/tmp"].split(",")
            assert {"/home/changeledger", "/opt/airflow"} <= set(places)
    memory = {name: int(service["mem_limit"]) for name, service in services().items()}
    # Two drivers of 4 GB; an executor's heap of 4 GB.
    assert memory["airflow-scheduler"] >= 9 * 2**30
    assert memory["spark-worker"] > 5 * 2**30


def test_zones() -> None:
    """A service can connect to another one if they share a network."""
    zones = {name: set(service["networks"]) for name, service in services().items()}
    internal = {name for name, network in resolved()["networks"].items() if network.get("internal")}
    assert internal == {"airflow", "stores"}
    assert "default" not in set.union(*zones.values())

    def may_reach(name: str) -> set[str]:
        return {other for other, joined in zones.items() if other != name and joined & zones[name]}

    sources = {"kafka", "debezium", "sqlserver-2022", "sqlserver-2025"}
    assert {name for name in zones if sources & may_reach(name)} == {
        *sources, "debezium-register", "ces-setup", "sqlserver-2022-setup", "sqlserver-2025-setup",
        *SPARK, "spark-connect", "airflow-scheduler",
    }  # fmt: skip
    assert may_reach("postgres") == {*AIRFLOW, "spark-connect"}
    # A service with a port published on the host must be in a network that is not internal.
    for name, service in services().items():
        assert not service.get("ports") or zones[name] - internal, name
    # A service that waits for another one can reach it.
    for name, service in services().items():
        for other in set(service.get("depends_on", {})) - ONE_SHOT:
            assert other in may_reach(name), f"{name} on {other}"


def test_a_driver_is_found_in_the_workers_network() -> None:
    """The driver is in several networks. It gives workers its name in the network that they share."""
    defaults = (PROJECT / "docker/spark/scheduler/spark-defaults.conf").read_text()
    of_scheduler = dict(line.split() for line in defaults.splitlines() if line[:1] not in {"", "#"})
    of_connect = dict(a.split("=") for a in services()["spark-connect"]["command"] if "=" in a)
    for name, settings in (("airflow-scheduler", of_scheduler), ("spark-connect", of_connect)):
        assert settings == {
            "spark.driver.host": name, "spark.driver.bindAddress": "0.0.0.0", "spark.driver.memory": "3400m",
        }  # fmt: skip
        assert set(services()[name]["networks"]) & set(services()["spark-worker"]["networks"])
    folder = services()["airflow-scheduler"]["environment"]["SPARK_CONF_DIR"]
    assert (PROJECT / Path(folder).relative_to("/opt/changeledger") / "spark-defaults.conf").is_file()


def test_sparks_programs_know_each_other_by_a_secret() -> None:
    """Without the secret, anyone who reaches the master's port could run programs."""
    have = {name for name in services() if "SPARK_AUTHENTICATE_SECRET" in secrets_of(services()[name])}
    assert have == {"spark-master", "spark-worker", "spark-connect", "airflow-scheduler"}


def test_what_stays_up_says_whether_it_is_well() -> None:
    assert {name for name, service in services().items() if "healthcheck" not in service} == ONE_SHOT
    assert {name for name, service in services().items() if service["restart"] == "no"} == ONE_SHOT


def test_each_waits_until_the_other_has_done_its_part() -> None:
    for name, service in services().items():
        for other, link in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
            assert (link["condition"], link["required"]) == (wanted, True), f"{name} on {other}"


def test_no_secret_in_environment_or_command() -> None:
    secrets = resolved()["secrets"]
    for name, service in services().items():
        for variable, value in service.get("environment", {}).items():
            assert variable.endswith("_FILE") or not TELLING.search(variable), f"{name}: {variable}"
            assert variable not in secrets
            assert not re.search(r"password|://[^/]*@", str(value), re.IGNORECASE) or variable.endswith(
                "_FILE"
            )
        assert not [a for a in arguments_of(service) if re.search(r"(?i)password|^-P$", a)], name


def test_secrets_are_files_that_git_and_the_image_leave_out(tmp_path: Path) -> None:
    sys.path.insert(0, str(PROJECT / "scripts"))
    try:
        import compose_secrets  # noqa: PLC0415 - no package: found through the line above
    finally:
        sys.path.pop(0)
    generated = set(compose_secrets.make(tmp_path / "secrets"))
    declared = resolved()["secrets"]
    assert set(declared) == generated | BY_HAND
    for name, secret in declared.items():
        assert secret["file"] == str(PROJECT / ".secrets" / name)
    used = {secret["source"] for service in services().values() for secret in service.get("secrets", [])}
    assert used == set(declared)
    assert ".secrets/" in (PROJECT / ".gitignore").read_text("utf-8").splitlines()
    ignored = (PROJECT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    assert not [line for line in ignored if line.startswith(("!.", "!*", "!/"))]


def test_mounted_files_are_there_and_read_only() -> None:
    mounts = [v for service in services().values() for v in service.get("volumes", []) if v["type"] == "bind"]
    assert mounts
    for mount in mounts:
        assert Path(mount["source"]).exists(), mount["source"]
        assert mount["read_only"], mount["source"]


def test_what_people_edit_is_that_of_the_host() -> None:
    """Airflow mounts these folders from the host, instead of those in the image."""
    for name in AIRFLOW:
        targets = {mount["target"] for mount in services()[name]["volumes"] if mount["type"] == "bind"}
        edited = {f"/opt/changeledger/include/{folder}" for folder in ("feeds", "databases", "expectations")}
        assert edited <= targets, name


def test_commands_name_files_that_are_there() -> None:
    """Below /opt/changeledger, a file is mounted, or the Dockerfile has copied it."""
    checked = 0
    for name, service in services().items():
        mounts = {m["target"]: m["source"] for m in service.get("volumes", []) if m["type"] == "bind"}
        for argument in arguments_of(service):
            for path in re.findall(r"(?:/opt/changeledger|\bdocker)/[\w./-]+", argument):
                target = next((t for t in mounts if path == t or path.startswith(f"{t}/")), "")
                host = Path(mounts[target] + path.removeprefix(target)) if target else PROJECT / path
                assert host.is_file(), f"{name}: {path}"
                checked += 1
    assert checked == 17


def test_the_dockerfile_builds_from_the_lock_and_copies_what_is_there() -> None:
    text = (PROJECT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    assert "pip install --no-cache-dir --require-hashes --requirement requirements.txt" in text
    assert len(re.findall(r"pip install", text)) == len(re.findall(r"--require-hashes|--no-deps", text)) == 2
    sent = {
        line[1:] for line in (PROJECT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"
    }
    for line in re.findall(r"(?m)^COPY (.*)$", text):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (PROJECT / source).exists(), source
            assert Path(source).parts[0] in sent, source
    assert 'ENTRYPOINT ["with-secrets"]' in text


def test_settings_are_those_that_the_programs_know() -> None:
    reported = yaml.safe_load((files("airflow") / "config_templates" / "config.yml").read_text())
    known = {f"AIRFLOW__{s}__{o}".upper() for s, section in reported.items() for o in section["options"]}
    # Options of the auth manager that the file names. It reads them with its own defaults.
    known |= {f"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_{o}" for o in ("USERS", "PASSWORDS_FILE")}
    known |= {f"CHANGELEDGER_{member}".upper() for member in Settings.model_fields}
    feeds = load_feeds(PROJECT / "include" / "feeds").values()
    known |= {connection_variable(c) for feed in feeds for c in (feed.connection, feed.spark_connection)}
    known |= {connection_variable("changeledger_connect"), "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS"}
    known |= {"SPARK_AUTHENTICATE_SECRET"}  # docker/with-secrets
    for name in [*AIRFLOW, "spark-connect"]:
        given = {*services()[name].get("environment", {}), *secrets_of(services()[name])}
        assert given - known == set(), name


# What the image or the file itself says, and what a task sets.
OF_THE_IMAGE = {"PROJECT", "HOME", "FEEDS", "DATABASES", "JARS", "PAGES_URL"}
# Each is for those alone that use it.
OF_SOME = {"CONTROL_URL", "CATALOG", "HASH_KEY"}


def test_every_setting_of_an_installation_reaches_the_containers(tmp_path: Path) -> None:
    """What somebody writes into .env, or into a secret, and the container does not get counts for nothing."""
    names = {name.upper() for name in Settings.model_fields} - OF_THE_IMAGE - OF_SOME
    chosen = tmp_path / "env"
    chosen.write_text("".join(f"CHANGELEDGER_{name}=of-{name}\n" for name in names))
    reported = json.loads(compose("config", "--format", "json", environment=chosen).stdout)["services"]
    for service in AIRFLOW:
        environment = reported[service]["environment"]
        assert {name: environment.get(f"CHANGELEDGER_{name}") for name in names} == {
            name: f"of-{name}" for name in names
        }, service
    with_jobs = secrets_of(services()["airflow-scheduler"])
    assert {f"CHANGELEDGER_{name}" for name in OF_SOME} <= with_jobs
    # A Connect server keeps values out of Spark's log if it starts with the setting.
    assert "CHANGELEDGER_REDACT_VALUES" in services()["spark-connect"]["environment"]


def test_a_setting_that_nobody_has_chosen_is_unset() -> None:
    """Compose passes it on as an empty variable, which `Settings` takes for none."""
    environment = services()["airflow-scheduler"]["environment"]
    empty = {name for name, value in environment.items() if name.startswith("CHANGELEDGER_") and not value}
    assert empty == {"CHANGELEDGER_REDACT_VALUES", "CHANGELEDGER_PAGES", "CHANGELEDGER_CATALOG_CONNECTION"}


def test_tasks_and_pages_find_the_shared_stores_and_a_check_its_database() -> None:
    stores = {"CHANGELEDGER_CONTROL_URL", "CHANGELEDGER_CATALOG"}
    for name, wanted in (
        ("airflow-scheduler", stores | {"AIRFLOW_CONN_SHOP_SQLSERVER"}),
        ("airflow-api-server", stores),
        # Airflow runs the callback of a killed task here, which ends the lease.
        ("airflow-dag-processor", {"CHANGELEDGER_CONTROL_URL"}),
    ):
        assert wanted <= {*services()[name]["environment"], *secrets_of(services()[name])}, name
    for name in ("airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"):
        assert services()[name]["healthcheck"]["test"][:3] == ["CMD", "with-secrets", "airflow"]
    for name in (*SPARK, "spark-connect", *AIRFLOW):
        warehouse = [v for v in services()[name].get("volumes", []) if v.get("source") == "warehouse"]
        assert [v["target"] for v in warehouse] == (
            [] if name == "spark-master" else ["/opt/changeledger/warehouse"]
        )


def test_connections_are_json() -> None:
    environment = services()["airflow-scheduler"]["environment"]
    reported = {
        name: json.loads(text) for name, text in environment.items() if name.startswith("AIRFLOW_CONN_")
    }
    assert reported["AIRFLOW_CONN_CHANGELEDGER_SPARK"] == {
        "conn_type": "spark",
        "host": "spark://spark-master:7077",
    }
    assert reported["AIRFLOW_CONN_SHOP_KAFKA"]["extra"]["bootstrap.servers"] == "kafka:9092"


@pytest.mark.parametrize("server", ["sqlserver-2022", "sqlserver-2025"])
def test_sql_server_runs_its_agent_and_is_set_up(server: str) -> None:
    environment = services()[server]["environment"]
    assert environment["MSSQL_AGENT_ENABLED"] == "true"
    assert environment["ACCEPT_EULA"] == "", "for the user to say"
    setup = services()[f"{server}-setup"]
    assert setup["image"] == services()[server]["image"]
    scripts = ("shop", "cdc", "grants")
    assert setup["command"][-1] == ",".join(f"/opt/changeledger/sqlserver/{s}.sql" for s in scripts)


@pytest.mark.parametrize("name", ["sqlserver-2022-setup", "sqlserver-2025-setup", "ces-setup"])
def test_the_scripts_variables_are_given(name: str) -> None:
    """sqlcmd takes $(NAME) from its environment, and stops if the variable is missing."""
    service = services()[name]
    asked: set[str] = set()
    for script in service["command"][-1].split(","):
        asked |= set(
            re.findall(r"\$\((\w+)\)", (PROJECT / "docker/sqlserver" / Path(script).name).read_text())
        )
    assert {*service.get("environment", {}), *secrets_of(service)} == asked | {"SQLCMDPASSWORD"}
