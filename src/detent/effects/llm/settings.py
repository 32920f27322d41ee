"""Which model is meant, read from the environment when it is needed.

    DETENT_MODEL        openai:NAME, anthropic:NAME or builtin:rules
    DETENT_BASE_URL     any server that speaks OpenAI's chat completions; its key, if it wants one, is OPENAI_API_KEY
    OPENAI_API_KEY, ANTHROPIC_API_KEY

A call may name another model (`model`), never another server: whoever writes a workflow must not be able to send your
keys elsewhere. Without DETENT_MODEL and DETENT_BASE_URL it is `builtin:rules`, which spends nothing.
"""

import os
import urllib.parse
from typing import Any, NamedTuple

from detent.effects.arguments import invalid
from detent.effects.llm.anthropic_messages import Messages
from detent.effects.llm.model import Model
from detent.effects.llm.openai_completions import Completions
from detent.effects.llm.rule_model import Rules
from detent.redaction import declared_redactor

MODEL, BASE_URL = "DETENT_MODEL", "DETENT_BASE_URL"
OPENAI_URL, ANTHROPIC_URL = "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
BUILTIN = "builtin:rules"
HOW = (
    f"set {MODEL} to openai:NAME or anthropic:NAME and the provider's key in OPENAI_API_KEY or ANTHROPIC_API_KEY, "
    f"or {BASE_URL} to any OpenAI-compatible server"
)


class Choice(NamedTuple):
    """A model that can be asked, or the reason why it cannot."""

    provider: str
    name: str
    server: str = ""  # where it is, if not at the provider's own address
    problem: str = ""

    @property
    def spec(self) -> str:
        """The model as it is written in DETENT_MODEL."""
        return f"{self.provider}:{self.name}" if self.provider else self.name

    @property
    def is_written_well(self) -> bool:
        """Whether it names a provider at all; keys and servers are another matter."""
        return self.provider in (*KEYS, "builtin") and bool(self.name)

    @property
    def is_builtin(self) -> bool:
        """Whether it is the rules that come with detent."""
        return self.provider == "builtin"

    @property
    def place(self) -> str:
        """The server without whatever in its address is nobody's business."""
        parts = urllib.parse.urlsplit(self.server)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if self.server else ""

    def open(self) -> Model:
        """The model itself."""
        if self.problem:
            raise invalid(f"the model `{self.spec}` cannot be used: {self.problem}")
        if self.is_builtin:
            return Rules()
        key = os.environ.get(KEYS[self.provider], "")
        kind = Completions if self.provider == "openai" else Messages
        return kind(self.name, key, self.server or None)


def choose_model(wanted: str = "") -> Choice:
    """The model of this environment, or the one a call wants."""
    environment = os.environ
    base_url = environment.get(BASE_URL, "")
    spec = wanted or environment.get(MODEL, "") or ("openai:default" if base_url else BUILTIN)
    provider, colon, name = spec.partition(":")
    if not colon or provider not in (*KEYS, "builtin") or not name:
        known = f"it is written openai:NAME, anthropic:NAME or {BUILTIN}"
        return Choice(provider if colon else "", name or spec, problem=known)
    if provider == "builtin":
        return Choice(provider, name, problem="" if name == "rules" else f"there is only {BUILTIN}")
    server = (
        (base_url or environment.get(OPENAI_URL, "")) if provider == "openai" else environment.get(ANTHROPIC_URL, "")
    )
    if server and urllib.parse.urlsplit(server).scheme not in ("http", "https"):
        return Choice(provider, name, server, f"the address in {BASE_URL} must begin with http:// or https://")
    is_keyless = provider == "openai" and bool(base_url)
    if not environment.get(KEYS[provider]) and not is_keyless:
        return Choice(provider, name, server, f"{KEYS[provider]} is not set in the environment")
    return Choice(provider, name, server)


def hide_keys(value: Any, *, is_free: bool = True) -> Any:
    """A text or value without any key in it: a server may repeat what it was sent."""
    keys = frozenset(filter(None, (os.environ.get(variable) for variable in KEYS.values())))
    return declared_redactor(keys).hide_in(value, is_free=is_free)
