"""``monitor baseline import``: the curve in the results of a load tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.baselines.importing import Format, read_files
from monitor.cli import exits
from monitor.cli.baseline_new import (
    ActivateOption,
    NameOption,
    ServiceName,
    check_standing,
    print_kept,
)
from monitor.cli.locate import database_url
from monitor.cli.options import ConfigOption, DatabaseOption, JsonOption, checked
from monitor.cli.stored import storing
from monitor.cli.whoami import whoami
from monitor.clock import SystemClock
from monitor.config.values import AUTO, check_name, parse_engine
from monitor.model import Engine
from monitor.store.baseline_rows import NewBaseline, Origin, Provenance
from monitor.store.baselines import check_baseline_name


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Results of one load tool.")],
    *,
    service: ServiceName,
    format_: Annotated[
        Format, typer.Option("--format", help="Tool that wrote them; auto: from the content.")
    ] = Format.AUTO,
    name: NameOption = None,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help=f"auto, {', '.join(Engine)}; auto: from the files.")
    ] = AUTO,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model, as the server's metrics name it.")
    ] = None,
    activate: ActivateOption = False,
    config: ConfigOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> int:
    """Import a baseline from vLLM, SGLang, GuideLLM or AIPerf results, or from CSV."""
    owner = checked("--service", check_name, service)
    chosen = _default_name(files[0])
    if name is not None:
        chosen = checked("--name", check_baseline_name, name)
    given = checked("--engine", parse_engine, engine)
    curve = read_files(files, format_)
    identity = curve.identity._replace(
        engine=given or curve.identity.engine, model=model or curve.identity.model
    )
    provenance = Provenance(
        how=Origin.IMPORT,
        tool=curve.tool,
        files=curve.sources,
        parameters={"format": format_, "engine": engine, "model": model},
        who=whoami(),
        start=curve.start,
        end=curve.end,
        notes=curve.notes,
    )
    new = NewBaseline(chosen, curve.points, identity, provenance)
    with storing(database_url(database, config)) as repository:
        if activate:
            way_out = "store it without --activate, then 'monitor baseline activate ... --force'"
            check_standing(repository, owner, force=False, way_out=way_out)
        found = repository.baselines.save(owner, new, SystemClock().utc(), activate=activate)
    print_kept(found, as_json=json)
    return exits.OK


def _default_name(file: Path) -> str:
    """The file's name, made fit where it looks like a version or a number."""
    stem = "".join(char if char.isprintable() and char != "#" else "-" for char in file.stem)
    stem = stem.strip()[:100] or "imported"
    return f"imported-{stem}" if stem.isdigit() else stem
