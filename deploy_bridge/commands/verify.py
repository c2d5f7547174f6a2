"""`gatepilot-bridge verify`: all checks of an artifact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ...agents.artifact.errors import ArtifactError
from ...agents.artifact.runtime import load_artifact
from ...agents.artifact.signing import PUBLIC_KEY_FILE, key_folder
from .output import print_json

REFUSED = 1
"""Exit code: the answer is no."""


def verify(
    artifact: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="Folder of the artifact.")],
    public_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Key of whom must have signed it; default: your own."),
    ] = None,
    allow_unsigned: Annotated[
        bool, typer.Option("--allow-unsigned", help="Take an artifact without a signature.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check an artifact: exact files, hashes, signature, contract, network, golden vectors.

    Exit code 0: it would be taken; 1: it is refused.

    Example: gatepilot-bridge verify artifact --public-key signing.pub
    """
    if public_key is None and not allow_unsigned:
        public_key = key_folder() / PUBLIC_KEY_FILE
    began_s = time.perf_counter()
    try:
        policy = load_artifact(artifact, public_key=public_key, allow_unsigned=allow_unsigned)
    except ArtifactError as error:
        if as_json:
            print_json({"accepted": False, "reason": " ".join(str(error).split())})
        typer.echo(f"gatepilot-bridge verify: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(REFUSED) from None
    manifest = policy.manifest
    found: dict[str, Any] = {
        "accepted": True,
        "digest": policy.digest,
        "is_signed": policy.is_signed,
        "fingerprint": manifest.fingerprint,
        "control_interval_s": manifest.control_interval_s,
        "observation": manifest.observation_spec.preset,
        "entries": len(manifest.features),
        "golden_vectors": manifest.golden_vectors,
        "refused_vectors": manifest.refused_vectors,
        "scenario": manifest.origin.scenario,
        "run_id": manifest.origin.run_id,
        "wall_s": time.perf_counter() - began_s,
    }
    if as_json:
        print_json(found)
        return
    signed = "signed" if policy.is_signed else "UNSIGNED, allowed by --allow-unsigned"
    typer.echo(f"good: {policy.folder}, {signed}")
    typer.echo(f"digest       {policy.digest}")
    typer.echo(f"contract     {manifest.fingerprint[:12]}, tick {manifest.control_interval_s:g} s")
    typer.echo(f"trained on   {manifest.origin.scenario}, run {manifest.origin.run_id}")
    typer.echo(
        f"checked      {manifest.golden_vectors} golden vectors, {manifest.refused_vectors} that "
        f"must be refused, in {found['wall_s']:.2f} s"
    )
