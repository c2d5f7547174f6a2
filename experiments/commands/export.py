"""`gatepilot export`: a trained policy as a sealed artifact."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...agents.artifact.placing import check_place
from ..files import check_folder
from ..model_names import check_alias, check_name
from ..options import AsJson, TracesDir

if TYPE_CHECKING:
    from ...agents.artifact.manifest import Manifest
    from ..tracking import ModelVersion

NOT_EQUAL = 1
"""Exit code where the network in the file decides otherwise than the trained one."""


def export(  # noqa: PLR0913, PLR0917  # options of the command
    run: Annotated[str, typer.Argument(metavar="RUN", help="MLflow's id of a training.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="The artifact's folder to be.")
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Private key (PEM, elliptic curve); default: signing.pem in "
            "~/.config/gatepilot, made on first use.",
        ),
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Leave it without a signature.")
    ] = False,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Bind it to the advisor that was tuned for this scenario of the training; "
            "default: the general one.",
        ),
    ] = None,
    register_as: Annotated[
        str | None,
        typer.Option("--register", metavar="NAME", help="Make a version of a registered model."),
    ] = None,
    alias: Annotated[
        str | None, typer.Option(help="Point this alias at the version; needs --register.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact there.")] = False,
    as_json: AsJson = False,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs.")] = Path("runs"),
    traces: TracesDir = None,
) -> None:
    """Seal the best model of a run: ONNX, manifest, golden vectors, signature.

    The network in the file is compared with the trained one on 100,000 observations. Ends with 1,
    and without an artifact, if they differ.

    Example: gatepilot export 4f1c09d2a7b34e5f8a6b7c8d9e0f1a2b -o artifact --register gateway
    """
    started_s = time.perf_counter()
    if unsigned and key is not None:
        raise typer.BadParameter("--unsigned and --key exclude each other")
    if alias is not None and register_as is None:
        raise typer.BadParameter("--alias needs --register")
    if register_as is not None:
        check_name(register_as)
    if alias is not None:
        check_alias(alias)
    check_place(out, force=force)
    check_folder(out)
    # torch and MLflow take seconds to load: only once the options are right
    from ...agents.artifact.export import export_policy  # noqa: PLC0415
    from ...agents.artifact.parity import ParityError  # noqa: PLC0415
    from ..compilation import compile_with_notice  # noqa: PLC0415
    from ..exporting import missing_traces, register, trained_run  # noqa: PLC0415
    from ..terminal import StudyProgress  # noqa: PLC0415
    from ..tracking import RunStore  # noqa: PLC0415

    store = RunStore(runs)
    trained = trained_run(store, run, traces, scenario)
    missing = missing_traces(trained.scenarios, traces)
    if missing:
        typer.echo(
            f"gatepilot export: {', '.join(missing)} not here (see --traces): the workload model "
            "stands in, so the digest differs from that of an export with the trace",
            err=True,
        )
    private_key = None if unsigned else key or _own_key()
    compile_with_notice()
    try:
        with StudyProgress() as progress:
            manifest = export_policy(
                trained,
                out,
                private_key=private_key,
                force=force,
                traces_dir=traces,
                reporter=progress,
            )
    except ParityError as error:
        typer.echo(f"gatepilot export: {error}", err=True)
        raise typer.Exit(NOT_EQUAL) from None
    version = None
    if register_as is not None:
        version = register(store, out, manifest, name=register_as, alias=alias)
    found = _as_dict(out, manifest, private_key, version, alias)
    found["model_stands_in"] = bool(missing)
    found["wall_s"] = time.perf_counter() - started_s
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
    else:
        _print(found, manifest)


def _own_key() -> Path:
    """The user's own key; made if there is none."""
    from ...agents.artifact.signing import (  # noqa: PLC0415  # as above
        PRIVATE_KEY_FILE,
        key_folder,
        make_key_pair,
    )

    private = key_folder() / PRIVATE_KEY_FILE
    if not private.exists():
        _, public = make_key_pair(key_folder())
        typer.echo(f"made a signing key: {private}; give operators {public}", err=True)
    return private


def _public_key(private_key: Path) -> str | None:
    """The file with the public half, if it lies beside the private one."""
    from ...agents.artifact.signing import PUBLIC_KEY_FILE, public_key_of  # noqa: PLC0415

    for path in (private_key.with_suffix(".pub"), private_key.with_name(PUBLIC_KEY_FILE)):
        if path.is_file() and path.read_bytes() == public_key_of(private_key):
            return str(path)
    return None


def _as_dict(
    out: Path,
    manifest: Manifest,
    private_key: Path | None,
    version: ModelVersion | None,
    alias: str | None,
) -> dict[str, Any]:
    """The object that `--json` prints."""
    registered = None
    if version is not None:
        registered = {"name": version.name, "version": version.number, "alias": alias}
    return {
        "artifact": str(out),
        "digest": manifest.digest,
        "fingerprint": manifest.fingerprint,
        "run_id": manifest.origin.run_id,
        "signed": private_key is not None,
        "public_key": None if private_key is None else _public_key(private_key),
        "parity": {
            "observations": manifest.parity.observations,
            "ties": manifest.parity.ties,
            "max_logit_error": manifest.parity.max_logit_error,
        },
        "golden_vectors": manifest.golden_vectors,
        "refused_vectors": manifest.refused_vectors,
        "traffic": manifest.origin.traffic,
        "registered": registered,
    }


def _print(found: dict[str, Any], manifest: Manifest) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False, markup=False)
    parity = manifest.parity
    ties = f", {parity.ties} ties within rounding" if parity.ties else ""
    console.print(f"artifact  {found['artifact']}")
    console.print(f"digest    {manifest.digest}")
    console.print(
        f"contract  {manifest.fingerprint[:12]}, a decision every {manifest.control_interval_s:g} s"
    )
    console.print(f"parity    equal on {parity.observations:,} observations{ties}")
    console.print(
        f"vectors   {manifest.golden_vectors:,} golden, {manifest.refused_vectors} to be refused"
    )
    if not found["signed"]:
        console.print("signed    no: the bridge takes it only if its configuration says so")
    else:
        console.print(f"signed    yes; check with {found['public_key'] or 'its public key'}")
    if found["model_stands_in"]:
        console.print("Ranges are those of the workload model: the trace was not here.")
    if registered := found["registered"]:
        pointed = f", alias {registered['alias']}" if registered["alias"] else ""
        console.print(f"registry  {registered['name']}/{registered['version']}{pointed}")
