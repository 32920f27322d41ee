"""Signing an answer on the command line: with the agent, a hardware key or a key's file, or on another machine."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from detent.core.answer import answer_of
from detent.core.signed_answer import PAYLOAD_MAX, SIGNATURE_MAX, expect_signed, read_signed, sign_text
from detent.core.value import plain
from detent.errors import Refused, Unknown
from detent.host.people import Tokens, identify_user
from detent.host.ssh_signature import make_signature
from detent.kit.language import _
from detent.kit.people_file import TOKEN_VARIABLE, PeopleFile
from detent.kit.terminal.caller import Caller

if TYPE_CHECKING:
    from detent.core.contract import Contract
    from detent.core.identity import Identity
    from detent.core.people import Person

KEY_VARIABLE = "DETENT_SIGN_KEY"  # the name of a variable
AGENT_S_MAX = 10.0
FILES_MAX = 200
SIGNERS_MAX = 1_000_000


class SigningWish(NamedTuple):
    """How an answer is to be signed."""

    key: str | None = None  # None: not here; empty: with a key that is found
    is_print: bool = False
    file: str = ""

    @property
    def is_wanted(self) -> bool:
        """Whether it is to be signed at all."""
        return self.key is not None or self.is_print or bool(self.file)


def sign_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that answers."""
    for option in reversed((
        click.option("--sign", "sign_key", is_flag=False, flag_value="", default=None, metavar="[KEYFILE]",
                     help=_("Sign the answer with your SSH key; by default the one that is registered.")),
        click.option("--print-payload", "is_payload", is_flag=True,
                     help=_("Only print the text to sign, for a key on another machine.")),
        click.option("--signature", "signature_file", default="", metavar="FILE",
                     help=_("A signature made elsewhere; the text it is for lies beside it, without `.sig`.")),
    )):  # fmt: skip
        function = option(function)
    return function


def read_wish(given: dict[str, Any]) -> SigningWish:
    """What these options say."""
    wish = SigningWish(given["sign_key"], given["is_payload"], given["signature_file"])
    if sum((wish.key is not None, wish.is_print, bool(wish.file))) > 1:
        raise click.UsageError(_("--sign, --print-payload and --signature do not go together"))
    return wish


def make_payload(caller: Caller, run_id: str, contract_id: str, said: dict[str, Any], by: str) -> "tuple[str, Person]":
    """The text to sign, and whose key it takes."""
    who, person = _identify(caller, by)
    contract = _contract(caller, run_id, contract_id)
    answer = answer_of(plain(said, "answer"))
    journal, epoch = caller.reader.identity()
    return sign_text(expect_signed(journal, epoch, run_id, contract, answer, who, int(time.time()))), person


def sign_answer(
    caller: Caller, run_id: str, contract_id: str, said: dict[str, Any], by: str, wish: SigningWish
) -> dict[str, str]:
    """The signature of an answer, with the text it is for."""
    if wish.file:
        return _read_signature(Path(wish.file))
    payload, person = make_payload(caller, run_id, contract_id, said, by)
    with _find_key(wish.key or os.environ.get(KEY_VARIABLE, ""), person) as key:
        return {"payload": payload, "signature": make_signature(key, payload.encode())}


def _identify(caller: Caller, by: str) -> "tuple[Identity, Person]":
    """Who answers, as the host will find out too."""
    people = PeopleFile(caller.home).current()
    if people is None:
        command = caller.command("people", "add", "NAME", "--role", "approver", "--key", "FILE")
        raise Refused(_("this home knows nobody's keys, so nobody can sign; begin with: {command}", command=command))
    token = os.environ.get(TOKEN_VARIABLE, "")
    who = Tokens().identify(people, token, by) if token else identify_user(people, os.getuid(), by)
    return who, people.by_name[who.speaker]


def _contract(caller: Caller, run_id: str, contract_id: str) -> "Contract":
    contract = caller.reader.standing(run_id).run.contract(contract_id)
    if contract is None:
        raise Unknown(f"there is no contract `{contract_id}` in run {run_id}")
    return contract


def _read_signature(file: Path) -> dict[str, str]:
    if file.suffix != ".sig":
        raise Refused(
            _("{file} must end in .sig, as ssh-keygen names it; the text lies beside it without that", file=file)
        )
    payload = _read(file.with_suffix(""), PAYLOAD_MAX * 4)
    read_signed(payload)
    return {"payload": payload, "signature": _read(file, SIGNATURE_MAX)}


def read_signers(file: Path | None) -> str:
    """An `allowed_signers` file; nothing where none is given."""
    if file is None:
        return ""
    signers = _read(file, SIGNERS_MAX)
    if not signers.strip() or len(signers) > SIGNERS_MAX:
        raise Refused(f"{file} is empty, or longer than {SIGNERS_MAX:,} characters")
    return signers


def _read(file: Path, size: int) -> str:
    try:
        with file.open("rb") as source:
            return source.read(size + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not a text'}") from None


@contextlib.contextmanager
def _find_key(named: str, person: "Person") -> Iterator[Path]:
    """The key's file: the one that is named, else a registered key in the agent or in `~/.ssh`."""
    if named:
        yield Path(named).expanduser()
        return
    registered = {tuple(key.split()[:2]): key for key in person.keys}
    held = [registered[mark] for line in _agent_keys() if (mark := tuple(line.split()[:2])) in registered]
    if held:
        with tempfile.TemporaryDirectory(prefix="detent-sign-") as folder:
            public = Path(folder, "key.pub")
            public.write_text(held[0] + "\n", encoding="utf-8")
            yield public
        return
    for public in sorted(Path("~/.ssh").expanduser().glob("*.pub"))[:FILES_MAX]:
        private = public.with_suffix("")
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if tuple(public.read_text(encoding="utf-8").split()[:2]) in registered and private.exists():
                yield private
                return
    raise Refused(
        _("no registered key of {name} is in the SSH agent or in ~/.ssh; say which: --sign KEYFILE, or {variable}",
          name=person.name, variable=KEY_VARIABLE)
    )  # fmt: skip


def _agent_keys() -> list[str]:
    if not os.environ.get("SSH_AUTH_SOCK"):
        return []
    try:
        done = subprocess.run(["ssh-add", "-L"], capture_output=True, timeout=AGENT_S_MAX, check=False)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode(errors="replace").splitlines() if done.returncode == 0 else []
