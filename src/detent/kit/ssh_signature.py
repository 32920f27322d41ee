"""Signatures by OpenSSH: `ssh-keygen -Y`, with a key in a file, in an agent or on a hardware token."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detent.errors import Refused

NAMESPACE = "detent"
TIMEOUT_S = 60.0  # somebody may have to touch a token


def sign(key: Path, message: bytes) -> str:
    """The signature of a message by a key: a private key's file, or the public half of one that an agent has."""
    return _call(["-Y", "sign", "-n", NAMESPACE, "-f", str(key)], message)


def find_signer(message: bytes, signature: str, signers: Path) -> str:
    """Whose signature of a message this is, by an `allowed_signers` file; refused when it is nobody's."""
    with _keep_signature(signature) as file:
        named = _call(["-Y", "find-principals", "-s", file, "-f", str(signers)], b"").split("\n")[0]
        whose = ["-I", named, "-f", str(signers)]
        _call(["-Y", "verify", "-n", NAMESPACE, "-s", file, *whose], message)
        return named


def check_signature(message: bytes, signature: str) -> str:
    """The key that made a signature of a message, whoever has it; refused when the signature is not of this message."""
    with _keep_signature(signature) as file:
        return _call(["-Y", "check-novalidate", "-n", NAMESPACE, "-s", file], message)


@contextmanager
def _keep_signature(signature: str) -> Iterator[str]:
    """The name of a file that holds a signature."""
    with tempfile.NamedTemporaryFile("w", suffix=".sig", encoding="ascii", errors="replace") as file:
        file.write(signature)
        file.flush()
        yield file.name


def _call(words: list[str], message: bytes) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            ["ssh-keygen", *words],  # noqa: S607
            input=message,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise Refused("there is no ssh-keygen here; OpenSSH 8.2 or newer has it") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"ssh-keygen has not answered for {TIMEOUT_S:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise Refused(f"ssh-keygen: {said or done.returncode}")
    return done.stdout.decode("utf-8", "replace").strip()
