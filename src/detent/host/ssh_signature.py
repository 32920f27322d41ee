"""SSH signatures, made and checked by OpenSSH's `ssh-keygen`; there is no cryptography of our own.

Never through a shell; what is checked comes from anybody, so its size and the time for it are limited.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
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


def check_signature(payload: str, signature: str, signer: str, allowed: str) -> str:
    """Why this is not a signature of this person under this text, as a sentence; nothing when it is."""
    if len(signature) > SIGNATURE_MAX or len(payload) > PAYLOAD_MAX:
        return f"a signature has at most {SIGNATURE_MAX:,} characters, and its text {PAYLOAD_MAX:,}"
    if not (signature.isascii() and signature.startswith(ARMOUR[0]) and signature.rstrip().endswith(ARMOUR[1])):
        return "this is not a signature of `ssh-keygen -Y sign`"
    if not allowed:
        return f"no SSH key of `{signer}` is known; an admin can add one: `detent people change {signer} --key FILE`"
    keygen = find_keygen()
    if not keygen:
        return MISSING
    with tempfile.TemporaryDirectory(prefix="detent-signature-") as folder:
        signers, signed = Path(folder, "allowed_signers"), Path(folder, "signature")
        signers.write_text(allowed, encoding="utf-8")
        signed.write_text(signature, encoding="ascii")
        command = [keygen, "-Y", "verify", "-f", str(signers), "-I", signer, "-n", NAMESPACE, "-s", str(signed)]
        try:
            done = subprocess.run(  # noqa: S603  # no shell; the texts come in files
                command,
                input=payload.encode(),
                capture_output=True,
                timeout=CHECK_S_MAX,
                env=_environment(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            return f"`ssh-keygen` could not check the signature: {type(error).__name__}"
    return "" if done.returncode == 0 else f"the signature is not of `{signer}`, or not for this text"


def make_signature(payload: str, key: Path) -> str:
    """Sign a text with a private key's file, or with the agent's key whose public half is in this file."""
    keygen = find_keygen()
    if not keygen:
        raise Refused(MISSING)
    command = [keygen, "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE]
    try:
        done = subprocess.run(  # noqa: S603  # no shell
            command, input=payload.encode(), capture_output=True, timeout=SIGN_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"`ssh-keygen` could not sign with {key}: {type(error).__name__}") from None
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        raise Refused(f"`ssh-keygen` could not sign with {key}: {why[-1] if why else 'no reason given'}")
    return done.stdout.decode("ascii", errors="replace")


def _environment() -> dict[str, str]:
    """Only what is needed to run: no configuration of anybody has a say in a check."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
