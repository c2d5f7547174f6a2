"""Signatures: by this key, over these files, in one form; the library's own verifier agrees."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from model_signing import hashing, signing, verifying

from gatepilot.agents.artifact.errors import SignatureError
from gatepilot.agents.artifact.folder import sha256
from gatepilot.agents.artifact.layout import SIGNED_FILES
from gatepilot.agents.artifact.placing import place
from gatepilot.agents.artifact.signing import (
    key_folder,
    make_key_pair,
    public_key_of,
    sign,
    verify_in_child,
    verify_signature,
)

CONTENT = {name: name.encode() * 9 for name in SIGNED_FILES}


@pytest.fixture
def folder(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    """Signed files; a signature does not look into them."""
    made = tmp_path / "artifact"
    place(made, CONTENT, force=False)
    sign(made, keys[0])
    return made


def test_a_key_is_made_once_and_only_its_owner_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert key_folder() == tmp_path / "config" / "gatepilot"
    private, public = make_key_pair(key_folder())
    assert (private.name, public.name) == ("signing.pem", "signing.pub")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    assert public_key_of(private) == public.read_bytes()
    before = private.read_bytes()
    with pytest.raises(SignatureError, match=r"signing\.pem: the key cannot be written"):
        make_key_pair(key_folder())
    assert private.read_bytes() == before
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert key_folder() == tmp_path / "home" / ".config" / "gatepilot"


def test_the_child_and_this_process_agree(folder: Path, keys: tuple[Path, Path]) -> None:
    signed = verify_signature(folder, keys[1])
    assert signed == {name: sha256(content) for name, content in CONTENT.items()}
    assert verify_in_child(folder, keys[1]) == signed


def test_the_library_s_own_verifier_accepts_it(folder: Path, keys: tuple[Path, Path]) -> None:
    config = hashing.Config().set_ignored_paths(paths=["model.sig"])
    verifier = verifying.Config().set_hashing_config(config)
    verifier.use_elliptic_key_verifier(public_key=keys[1])
    verifier.verify(folder, folder / "model.sig")


def test_the_child_says_why_in_one_line(folder: Path, keys: tuple[Path, Path]) -> None:
    (folder / "policy.onnx").write_bytes(b"other")
    with pytest.raises(SignatureError, match=r"not a signature of .* over these files") as caught:
        verify_in_child(folder, keys[1])
    assert len(str(caught.value).splitlines()) == 1


def test_another_key_is_refused(folder: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    _, stranger = make_key_pair(tmp_path / "stranger")
    with pytest.raises(SignatureError, match="made with another key"):
        verify_signature(folder, stranger)
    bundle = json.loads((folder / "model.sig").read_bytes())
    hint = bundle["verificationMaterial"]["publicKey"]["hint"]
    place(tmp_path / "forged", CONTENT, force=False)
    sign(tmp_path / "forged", tmp_path / "stranger" / "signing.pem")
    forged = json.loads((tmp_path / "forged" / "model.sig").read_bytes())
    forged["verificationMaterial"]["publicKey"]["hint"] = hint  # claims to be by our key
    (tmp_path / "forged" / "model.sig").write_bytes(canonical(forged))
    with pytest.raises(SignatureError, match="not a signature of"):
        verify_signature(tmp_path / "forged", keys[1])


def canonical(bundle: object) -> bytes:
    return json.dumps(bundle, sort_keys=True, separators=(",", ":")).encode()


def test_the_envelope_has_one_form(folder: Path, keys: tuple[Path, Path]) -> None:
    path = folder / "model.sig"
    good = path.read_bytes()
    bundle = json.loads(good)
    envelope = bundle["dsseEnvelope"]
    signature = envelope["signatures"][0]
    for other in (
        good + b"\n",
        json.dumps(bundle).encode(),
        canonical(bundle | {"mediaType": "application/json"}),
        canonical(bundle | {"note": 1}),
        canonical(bundle | {"dsseEnvelope": envelope | {"payloadType": "text/plain"}}),
        canonical(
            bundle | {"dsseEnvelope": envelope | {"signatures": [signature | {"keyid": "x"}]}}
        ),
        canonical(bundle | {"dsseEnvelope": envelope | {"signatures": [signature, signature]}}),
    ):
        path.write_bytes(other)
        with pytest.raises(SignatureError, match="not as gatepilot writes it"):
            verify_signature(folder, keys[1])
    for broken in (b"", b"{}", b"[]", b"\x00", canonical(bundle | {"dsseEnvelope": None})):
        path.write_bytes(broken)
        with pytest.raises(SignatureError, match="not a signature bundle"):
            verify_signature(folder, keys[1])
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["predicate"]["resources"].pop()
    changed = base64.b64encode(json.dumps(payload).encode()).decode()
    path.write_bytes(canonical(bundle | {"dsseEnvelope": envelope | {"payload": changed}}))
    with pytest.raises(SignatureError, match=r"not a signature of .*InvalidSignature"):
        verify_signature(folder, keys[1])


def test_a_signature_over_fewer_files_is_refused(folder: Path, keys: tuple[Path, Path]) -> None:
    """The key's owner signs, but lets the signature overlook the golden vectors."""
    path = folder / "model.sig"
    config = hashing.Config().set_ignored_paths(paths=["model.sig", "golden.npz"])
    signer = signing.Config().set_hashing_config(config)
    signer.use_elliptic_key_signer(private_key=keys[0]).sign(folder, path)
    path.write_bytes(canonical(json.loads(path.read_bytes())))
    with pytest.raises(SignatureError, match=r"covers manifest\.json, policy\.onnx, expected"):
        verify_signature(folder, keys[1])


def test_unusable_keys_and_no_signature(
    folder: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    (folder / "model.sig").unlink()
    with pytest.raises(SignatureError, match=r"model\.sig: missing: the artifact is unsigned"):
        verify_signature(folder, keys[1])
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"secret")
    for name, content, reason in (
        ("none", None, "cannot be read"),
        ("text", b"hello", "not a private key in PEM"),
        ("public", keys[1].read_bytes(), "not a private key in PEM"),
        (
            "rsa",
            rsa.generate_private_key(65537, 2048).private_bytes(
                pem, pkcs8, serialization.NoEncryption()
            ),
            "not an elliptic-curve key",
        ),
        (
            "locked",
            ec.generate_private_key(ec.SECP256R1()).private_bytes(pem, pkcs8, locked),
            "it is encrypted",
        ),
        (
            "koblitz",
            ec.generate_private_key(ec.SECP256K1()).private_bytes(
                pem, pkcs8, serialization.NoEncryption()
            ),
            "cannot sign .Unsupported key for curve",
        ),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(SignatureError, match=reason):
            sign(folder, tmp_path / name)
    assert not (folder / "model.sig").exists()
    sign(folder, keys[0])
    with pytest.raises(SignatureError, match="the public key cannot be read"):
        verify_signature(folder, tmp_path / "none")
    with pytest.raises(SignatureError, match="not a public key in PEM"):
        verify_signature(folder, tmp_path / "text")
    shutil.rmtree(folder)
