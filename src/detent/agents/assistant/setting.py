"""How the assistant of a home behaves: a small file beside its journal that holds for every turn begun from then on."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from detent.errors import JournalError
from detent.whole_file import write_whole

FILE = "assistant.json"
Word = Annotated[str, Meta(min_length=1, max_length=100)]


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What can be set; everything has a value that works."""

    intent: Literal["model", "rules", "off"] = "model"  # who decides what a message is about where rules do not
    emotion_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    instructions: Annotated[str, Meta(max_length=20_000)] = ""  # told to the model after our own
    model: Annotated[str, Meta(max_length=200)] = ""  # another one than DETENT_MODEL
    identical_calls_max: Annotated[int, Meta(ge=1, le=1000)] = 3  # one more of the same call in a row ends the turn
    compact_at: Annotated[int, Meta(ge=1000, le=10_000_000)] = 60_000  # characters of history; then it is summarised
    keywords: dict[str, list[Word]] = {}  # by service: what in a message means it
    form_ttl_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 0.0  # of forms that say nothing; 0: they wait for ever


def load(home: Path) -> Setting:
    """The settings of a home; a file that cannot be read is an error, not a wish for the defaults."""
    path = home / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Setting)
    except FileNotFoundError:
        return Setting()
    except (OSError, msgspec.DecodeError) as error:
        raise JournalError(f"{path}: {error}; mend it, or remove it to have the defaults") from None


def save(home: Path, setting: Setting) -> Setting:
    """Keep the settings; whoever reads at the same time sees the old file or the new one."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(home / FILE, msgspec.json.format(msgspec.json.encode(setting), indent=2) + b"\n")
    return setting


def list_set(setting: Setting) -> dict[str, Any]:
    """The settings as a turn takes them: those that say something."""
    return {name: value for name, value in msgspec.structs.asdict(setting).items() if value not in ("", {})}
