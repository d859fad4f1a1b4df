"""What is shipped for containers and clusters: checked against the schemas, and by the program."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose
from promtool import needs_promtool, promtool
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from monitor import __version__
from monitor.cli.runner import run
from monitor.store import schema
from monitor.store.connect import parse_url

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
SERVED = ("1.29", "1.33", "1.36")
"""Releases of Kubernetes: an old one, and newer ones."""
SERVICE_MONITOR = {
    "type": "object",
    "required": ["selector", "endpoints"],
    "additionalProperties": False,
    "properties": {
        "selector": {"type": "object", "required": ["matchLabels"]},
        "endpoints": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "port": {"type": "string"},
                    "interval": {"type": "string", "pattern": "^[0-9]+[smh]$"},
                    "authorization": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "credentials": {"type": "object", "required": ["name", "key"]}
                        },
                    },
                },
            },
        },
    },
}
"""The fields that are used of the Prometheus operator's kind."""


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(KUBERNETES.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield path.stem, read(path)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read(DEPLOY / "docker-compose.yml")


# -- the image -----------------------------------------------------------------------------


def test_the_dockerfile_passes_its_linter() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [str(hadolint), "--failure-threshold", "info", str(DEPLOY / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_image_is_built_from_what_is_there_and_runs_as_nobody_special() -> None:
    wanted = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    assert all((ROOT / name).exists() for name in wanted)
    project = (ROOT / "pyproject.toml").read_text()
    # Everything the wheel is made of.
    assert {"alerts", "dashboards", "migrations", "monitor"} <= set(wanted)
    assert 'readme = "README.md"' in project
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert "USER 10001:10001" in lines


# -- docker compose ------------------------------------------------------------------------


def test_the_compose_file_is_valid(compose: dict[str, Any]) -> None:
    plain = {key: value for key, value in compose.items() if not key.startswith("x-")}
    # The library does not know the name that Docker has for its own machine.
    text = json.dumps(plain).replace("host-gateway", "127.0.0.1")
    services = PyCompose.from_json(text).services
    assert services is not None
    assert services.keys() == plain["services"].keys()
    with pytest.raises(ValueError, match="does not start with"):
        PyCompose.from_json('{"services": {"a": {"imagee": "x"}}}')


def test_everything_that_the_services_use_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert set(service.get("secrets", [])) <= compose["secrets"].keys(), name
        depends = service.get("depends_on", {})
        assert set(depends) <= services.keys(), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
            else:
                assert source in compose["volumes"], source
        # Nothing is reachable from other machines.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert "no-new-privileges:true" in service["security_opt"], name
        if name != "postgres":
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name


def test_no_secret_is_written_into_a_file(compose: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(
        DEPLOY / "compose", tmp_path / "compose", ignore=shutil.ignore_patterns("secrets")
    )
    script = tmp_path / "compose" / "secrets.sh"
    subprocess.run(["sh", str(script)], check=True, capture_output=True)
    made = {path.name: path.read_text() for path in (script.parent / "secrets").iterdir()}
    named = {Path(secret["file"]).name for secret in compose["secrets"].values()}
    assert made.keys() == named
    assert all(len(text) >= 48 and text.isprintable() for text in made.values())
    assert len(set(made.values())) == len(made)
    assert (script.parent / "secrets").stat().st_mode & 0o777 == 0o700
    # A second run keeps what there is.
    subprocess.run(["sh", str(script)], check=True, capture_output=True)
    assert {p.name: p.read_text() for p in (script.parent / "secrets").iterdir()} == made


def with_secrets(text: str, folder: Path) -> str:
    """The same text, with secrets that are there."""
    for name in ("database-url", "monitor-token", "monitor/token"):
        path = folder / name.replace("/", "-")
        path.write_text("postgresql://u:p@h/d" if "url" in name else "0123456789abcdef")
        text = text.replace(f"/run/secrets/{name}", str(path))
    return text


def test_the_configurations_are_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_map = read(KUBERNETES / "configmap.yaml")["data"]["monitor.yaml"]
    for number, config in enumerate([(DEPLOY / "compose/monitor.yaml").read_text(), config_map]):
        file = tmp_path / f"{number}.yaml"
        file.write_text(with_secrets(config, tmp_path))
        assert run(["config", "check", str(file)]) == 0, capsys.readouterr().err


@needs_promtool
def test_the_configuration_of_prometheus_is_valid(tmp_path: Path) -> None:
    config = with_secrets((DEPLOY / "compose/prometheus.yml").read_text(), tmp_path)
    rules = ROOT / "alerts/prometheus/monitor.rules.yml"
    (tmp_path / "prometheus.yml").write_text(
        config.replace("/etc/prometheus/monitor.rules.yml", str(rules))
    )
    assert "21 rules found" in promtool("check", "config", "prometheus.yml", cwd=tmp_path)


def test_the_files_for_grafana_are_written_by_the_command_of_the_compose_file(
    compose: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "password").write_text("x" * 48)
    command = [
        part.replace("/var/lib/monitor", str(tmp_path / "out")).replace(
            "/run/secrets/grafana-database-password", str(tmp_path / "password")
        )
        for part in compose["services"]["grafana-files"]["command"]
    ]
    assert run(command) == 0
    grafana = compose["services"]["grafana"]
    provisioning = grafana["environment"]["GF_PATHS_PROVISIONING"]
    mounted = next(v for v in grafana["volumes"] if v.startswith("grafana-files:")).split(":")[1]
    inside = Path(provisioning).relative_to(mounted)
    provider = read(tmp_path / "out" / inside / "dashboards/specdec.yaml")["providers"][0]
    boards = Path(provider["options"]["path"]).relative_to(mounted)
    assert (tmp_path / "out" / boards / "specdec-paying.json").exists()


def test_grafana_s_user_reads_the_views_and_nothing_else(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements of the script, on a real server; psql fills in the password there."""
    script = (DEPLOY / "compose/postgres-init.sh").read_text()
    statements = script.split("<<'SQL'\n")[1].removesuffix("SQL\n")
    user = f"grafana_{os.getpid()}"
    statements = statements.replace(":'password'", "'pw'").replace("ROLE grafana", f"ROLE {user}")
    admin = create_engine(parse_url(postgresql_url), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        known = connection.execute(
            text("SELECT count(*) FROM pg_roles WHERE rolname = 'monitor_reader'")
        ).scalar()
        for statement in statements.split(";"):
            if statement.strip() and not (known and "monitor_reader NOLOGIN" in statement):
                connection.execute(text(statement))
    try:
        schema.upgrade(postgresql_url)
        with admin.connect() as connection:
            connection.execute(text(f"SET ROLE {user}"))
            assert connection.execute(text("SELECT count(*) FROM v_history")).scalar() == 0
            with pytest.raises(ProgrammingError, match="permission denied"):
                connection.execute(text("SELECT * FROM targets"))
            connection.execute(text("RESET ROLE"))
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP ROLE {user}"))
        admin.dispose()


# -- Kubernetes ----------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", [m for _, m in manifests()], ids=lambda m: m["kind"])
def test_a_manifest_fits_the_schema_of_its_kind(manifest: dict[str, Any]) -> None:
    if manifest["kind"] == "ServiceMonitor":
        jsonschema.validate(manifest["spec"], SERVICE_MONITOR)
        return
    for release in SERVED:
        kubernetes_validate.validate(manifest, release, strict=True)


def test_the_kustomization_names_every_manifest() -> None:
    kustomization = read(KUBERNETES / "kustomization.yaml")
    listed = set(kustomization["resources"])
    assert listed == {f"{name}.yaml" for name, _ in manifests()} - {"servicemonitor.yaml"}
    assert kustomization["images"] == [{"name": "specdec-monitor", "newTag": __version__}]


def test_the_manifests_belong_together() -> None:
    found = dict(manifests())
    pod = found["deployment"]["spec"]["template"]
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    for name in ("service", "networkpolicy", "servicemonitor"):
        selector = found[name]["spec"].get("selector") or found[name]["spec"]["podSelector"]
        assert selector.get("matchLabels", selector) == labels, name
    (container,) = spec["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = [
        container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness", "startup")
    ]
    assert {probe["path"] for probe in probes} == {"/livez", "/readyz"}
    assert all(probe["port"] in ports for probe in probes)
    assert found["service"]["spec"]["ports"][0]["targetPort"] in ports
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["config"]["configMap"]["name"] == found["configmap"]["metadata"]["name"]
    assert (
        volumes["data"]["persistentVolumeClaim"]["claimName"] == found["pvc"]["metadata"]["name"]
    )
    config = yaml.safe_load(found["configmap"]["data"]["monitor.yaml"])
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    assert Path(config["token_file"]).parent == Path("/run/secrets/monitor")
    assert mounts["/run/secrets/monitor"] == "token"
    assert int(config["listen"].split(":")[1]) == ports["http"]


def test_the_pods_are_as_locked_up_as_the_strictest_standard_asks() -> None:
    found = dict(manifests())
    spec = found["deployment"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert spec["automountServiceAccountToken"] is False
    assert found["serviceaccount"]["automountServiceAccountToken"] is False
    for container in itertools.chain(spec["initContainers"], spec["containers"]):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "limits" in container["resources"]
