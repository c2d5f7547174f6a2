"""What is refused about an artifact.

ArtifactError
├── FingerprintMismatchError   it was trained under another contract
├── SignatureError             its signature is missing, not ours or not of these files
└── NonFiniteError             a measured observation, or what the network makes of it
"""

from __future__ import annotations


class ArtifactError(ValueError):
    """One line: the folder, the file, and what is wrong with it."""


class FingerprintMismatchError(ArtifactError):
    """Trained under another contract than this code, or than the bridge, has."""


class SignatureError(ArtifactError):
    """A signature or a key that is missing, malformed, or not of these files."""


class NonFiniteError(ArtifactError):
    """An observation or logits with NaN or an infinity: never an action."""
