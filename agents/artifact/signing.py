"""The artifact's signature: OpenSSF model-signing with a local elliptic-curve key, offline.

The library is loaded only where a signature is made or checked: it takes 60 MiB and most of a
second. A long-running process therefore checks in a short child (`verify_in_child`).

What is not covered by the signature itself (the envelope around it) has one allowed form, so that
no byte of `model.sig` can be changed either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from .errors import ArtifactError, SignatureError
from .folder import read_folder
from .layout import SIGNATURE_FILE, SIGNED_FILES

PRIVATE_KEY_FILE: Final = "signing.pem"
PUBLIC_KEY_FILE: Final = "signing.pub"
_CHECK_TIMEOUT_S: Final = 60.0
"""After which a child that checks a signature counts as failed."""
_MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_REFUSED = 1


def key_folder() -> Path:
    """Where keys are kept unless said otherwise: `$XDG_CONFIG_HOME/gatepilot`."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if os.path.isabs(configured) else Path.home() / ".config"
    return base / "gatepilot"


def make_key_pair(folder: Path) -> tuple[Path, Path]:
    """Makes a key on the curve P-256; the private half only its owner can read.

    Args:
        folder: Where to; made if need be.

    Returns:
        The private key (`signing.pem`, mode 0600) and the public one (`signing.pub`).

    Raises:
        SignatureError: There is a key already, or the folder cannot be written.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # heavy
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  # heavy

    private, public = folder / PRIVATE_KEY_FILE, folder / PUBLIC_KEY_FILE
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
        public.write_bytes(_public_pem(key.public_key()))
    except OSError as error:
        msg = f"{error.filename or folder}: the key cannot be written ({error.strerror})"
        raise SignatureError(msg) from error
    return private, public


def public_key_of(private_key: Path) -> bytes:
    """The public half of a private key, as PEM.

    Raises:
        SignatureError: It is no readable, unencrypted elliptic-curve key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # heavy
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # heavy
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  # heavy

    try:
        key = serialization.load_pem_private_key(private_key.read_bytes(), None)
    except OSError as error:
        msg = f"{private_key}: cannot be read ({error.strerror})"
        raise SignatureError(msg) from error
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        reason = "it is encrypted" if isinstance(error, TypeError) else "not a private key in PEM"
        msg = f"{private_key}: {reason}; expected an unencrypted elliptic-curve key (P-256)"
        raise SignatureError(msg) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        msg = f"{private_key}: not an elliptic-curve key; expected one on P-256, P-384 or P-521"
        raise SignatureError(msg)
    return _public_pem(key.public_key())


def sign(folder: Path, private_key: Path) -> None:
    """Writes `model.sig` over all other files of an artifact.

    Args:
        folder: The artifact.
        private_key: PEM, unencrypted, on P-256, P-384 or P-521.

    Raises:
        SignatureError: The key cannot be used.
    """
    from model_signing import hashing, signing  # noqa: PLC0415  # heavy

    public_key_of(private_key)
    signature = folder / SIGNATURE_FILE
    config = signing.Config().set_hashing_config(_hashing(hashing))
    try:
        config.use_elliptic_key_signer(private_key=private_key).sign(folder, signature)
    except ValueError as error:
        msg = f"{private_key}: cannot sign ({_first_line(error)})"
        raise SignatureError(msg) from error
    signature.write_bytes(_canonical(json.loads(signature.read_bytes())))


def verify_signature(folder: Path, public_key: Path) -> dict[str, str]:
    """Checks the signature over all files of an artifact.

    Args:
        folder: The artifact.
        public_key: PEM.

    Returns:
        SHA-256 of every signed file by name.

    Raises:
        ArtifactError: The folder holds other files than an artifact's.
        SignatureError: There is no signature, it is not made with this key or not over these files,
            or `model.sig` is not as `sign` writes it.
    """
    from model_signing import hashing, verifying  # noqa: PLC0415  # heavy

    files = read_folder(folder)
    path = folder / SIGNATURE_FILE
    if SIGNATURE_FILE not in files:
        msg = f"{path}: missing: the artifact is unsigned"
        raise SignatureError(msg)
    payload = _payload(files[SIGNATURE_FILE], path, _hint(public_key))
    config = verifying.Config().set_hashing_config(_hashing(hashing))
    with TemporaryDirectory() as name:  # a copy of what was read: nobody can swap a file in between
        copy = Path(name)
        for file, content in files.items():
            (copy / file).write_bytes(content)
        try:
            verifier = config.use_elliptic_key_verifier(public_key=public_key)
            verifier.verify(copy, copy / SIGNATURE_FILE)
            signed = {entry["name"]: entry["digest"] for entry in payload["predicate"]["resources"]}
        except Exception as error:  # InvalidSignature is no ValueError; parsers raise anything
            msg = f"{path}: not a signature of {public_key} over these files ({_reason(error)})"
            raise SignatureError(msg) from error
    if signed.keys() != set(SIGNED_FILES):
        msg = f"{path}: covers {', '.join(sorted(signed))}, expected {', '.join(SIGNED_FILES)}"
        raise SignatureError(msg)
    return signed


def verify_in_child(folder: Path, public_key: Path) -> dict[str, str]:
    """`verify_signature` in a short process of its own, which leaves no memory behind.

    Raises:
        SignatureError: The signature is refused, or the child did not answer.
    """
    command = [sys.executable, "-P", "-m", __name__, str(folder), str(public_key)]
    try:
        done = subprocess.run(  # noqa: S603  # this module
            command, capture_output=True, text=True, check=False, timeout=_CHECK_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"{folder / SIGNATURE_FILE}: could not be checked ({_first_line(error)})"
        raise SignatureError(msg) from error
    if done.returncode == 0:
        answer: dict[str, str] = json.loads(done.stdout)
        return answer
    lines = done.stderr.strip().splitlines() or [f"no answer, code {done.returncode}"]
    known = done.returncode == _REFUSED
    raise SignatureError(
        lines[-1] if known else f"{folder / SIGNATURE_FILE}: could not be checked ({lines[-1]})"
    )


def _hashing(hashing: Any) -> Any:  # noqa: ANN401  # the library's module; loaded late
    """Every file but the signature, hidden ones too; a symbolic link is an error."""
    config = hashing.Config().use_file_serialization(
        hashing_algorithm="sha256", allow_symlinks=False
    )
    return config.set_ignored_paths(paths=[SIGNATURE_FILE], ignore_git_paths=False)


def _hint(public_key: Path) -> str:
    """How a bundle names the key: the SHA-256 of its PEM form."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # heavy
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # heavy

    try:
        key = serialization.load_pem_public_key(public_key.read_bytes())
    except OSError as error:
        msg = f"{public_key}: the public key cannot be read ({error.strerror})"
        raise SignatureError(msg) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        msg = f"{public_key}: not a public key in PEM"
        raise SignatureError(msg) from error
    return hashlib.sha256(_public_pem(key)).hexdigest()


def _public_pem(key: Any) -> bytes:  # noqa: ANN401  # any of the library's public keys; loaded late
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # heavy

    pem: bytes = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem


def _payload(content: bytes, path: Path, hint: str) -> dict[str, Any]:
    """What a bundle signs, if all around it is exactly as `sign` writes it.

    Raises:
        SignatureError: The bundle has another form, or names another key.
    """
    try:
        bundle = json.loads(content)
        envelope = bundle["dsseEnvelope"]
        named = bundle["verificationMaterial"]["publicKey"]["hint"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        statement: dict[str, Any] = json.loads(payload)
    except (ValueError, KeyError, IndexError, TypeError, binascii.Error) as error:
        msg = f"{path}: not a signature bundle"
        raise SignatureError(msg) from error
    if named != hint:
        msg = f"{path}: made with another key ({str(named)[:12]}), expected {hint[:12]}"
        raise SignatureError(msg)
    expected = {
        "mediaType": _MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    if _canonical(expected) != content:
        msg = f"{path}: not as gatepilot writes it: it was changed after signing"
        raise SignatureError(msg)
    return statement


def _canonical(bundle: dict[str, Any]) -> bytes:
    """A bundle in the one form that is accepted."""
    return json.dumps(bundle, sort_keys=True, separators=(",", ":")).encode()


def _reason(error: Exception) -> str:
    return _first_line(error) if str(error) else type(error).__name__


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _main(folder: str, public_key: str) -> int:
    """The child: prints what is signed, or one line of refusal."""
    try:
        signed = verify_signature(Path(folder), Path(public_key))
    except ArtifactError as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED
    sys.stdout.write(json.dumps(signed))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
