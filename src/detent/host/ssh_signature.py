"""SSH signatures, made and checked by OpenSSH's `ssh-keygen`; there is no cryptography of our own.

Never through a shell; what is checked comes from anybody, so its size and the time for it are limited.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from detent.core.signed_answer import NAMESPACE, PAYLOAD_MAX, SIGNATURE_MAX
from detent.errors import Refused

KEYGEN = "ssh-keygen"
CHECK_S_MAX = 10.0
SIGN_S_MAX = 120.0  # somebody may have to type a passphrase or to touch a key
ARMOUR = ("-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----")
MISSING = "`ssh-keygen` is missing, which makes and checks signatures; install the package `openssh-client`"


def find_keygen() -> str:
    """Where `ssh-keygen` is; nothing where it is missing."""
    return shutil.which(KEYGEN) or ""


def list_signers(keys: Iterable[tuple[str, Iterable[str]]]) -> str:
    """The text of an `allowed_signers` file: people with their keys, for answers only."""
    lines = (
        f'{name} namespaces="{NAMESPACE}" {" ".join(key.split()[:2])}' for name, several in keys for key in several
    )
    return "".join(f"{line}\n" for line in lines)


def find_flaw(payload: str, signature: str, signer: str, allowed: str) -> str:
    """Why this is not a signature of this person under this text, as a sentence; nothing when it is."""
    if len(signature) > SIGNATURE_MAX or len(payload) > PAYLOAD_MAX:
        return f"a signature has at most {SIGNATURE_MAX:,} characters, and its text {PAYLOAD_MAX:,}"
    if not (signature.isascii() and signature.startswith(ARMOUR[0]) and signature.rstrip().endswith(ARMOUR[1])):
        return "this is not a signature of `ssh-keygen -Y sign`"
    if not allowed:
        return f"no SSH key of `{signer}` is known; an admin can add one: `detent people change {signer} --key FILE`"
    if not find_keygen():
        return MISSING
    with tempfile.NamedTemporaryFile("w", suffix=".signers", encoding="utf-8") as signers:
        signers.write(allowed)
        signers.flush()
        try:
            with _keep_signature(signature) as file:
                _call(["-Y", "verify", "-n", NAMESPACE, "-s", file, "-I", signer, "-f", signers.name], payload.encode())
        except Refused:
            return f"the signature is not of `{signer}`, or not for this text"
    return ""


def make_signature(key: Path, message: bytes) -> str:
    """The signature of a message by a key: a private key's file, or the public half of one that an agent has."""
    return _call(["-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key)], message, SIGN_S_MAX, os.environ)


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


def _call(
    words: list[str], message: bytes, timeout_s: float = CHECK_S_MAX, environment: Mapping[str, str] | None = None
) -> str:
    """What `ssh-keygen` says; in a check no setting of anybody has a say, and a key may need those of its owner."""
    keygen = find_keygen()
    if not keygen:
        raise Refused(MISSING)
    try:
        done = subprocess.run(  # noqa: S603  # no shell, and texts of others come in files
            [keygen, *words],
            input=message,
            capture_output=True,
            timeout=timeout_s,
            env=_environment() if environment is None else environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"ssh-keygen has not answered for {timeout_s:g} s") from None
    except OSError as error:
        raise Refused(f"ssh-keygen does not run on this machine: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise Refused(f"ssh-keygen: {said or done.returncode}")
    return done.stdout.decode("utf-8", "replace").strip()


def _environment() -> dict[str, str]:
    """Only what is needed to run: no configuration of anybody has a say in a check."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
