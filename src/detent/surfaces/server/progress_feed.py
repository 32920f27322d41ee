"""What effects say while they are at work, kept for as long as they are: whoever comes late hears it from the start.

No journal has it. Each contract's words are bounded in number and size, the oldest go first, and so are the contracts.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from detent.host.port import OpenHost
from detent.kit.html_sanitiser import harmless
from detent.kit.http.sse import message

WORDS_MAX = 500  # of one contract
TEXT_MAX = 64 * 1024  # characters in one word; of a text that goes on, the end is kept
BYTES_MAX = 256 * 1024  # of one contract
CONTRACTS_MAX = 128  # whose words are kept at the same time
UNREAD_MAX = 256  # words kept for a slow reader; older ones are dropped, for they are gone anyway


class ProgressText:
    """What one contract has said so far."""

    def __init__(self) -> None:
        self._words: deque[tuple[dict[str, Any], int]] = deque()
        self._bytes = 0

    def add(self, data: dict[str, Any], size: int) -> None:
        """Keep one word; pieces of one text become one."""
        if self._words and _is_piece(data) and _is_piece(self._words[-1][0]):
            before, had = self._words.pop()
            self._bytes -= had
            text = (before["text"] + data["text"])[-TEXT_MAX:]
            data, size = {"text": text}, min(had + size, 4 * TEXT_MAX)
        self._words.append((data, size))
        self._bytes += size
        while len(self._words) > WORDS_MAX or (self._bytes > BYTES_MAX and len(self._words) > 1):
            self._bytes -= self._words.popleft()[1]

    @property
    def words(self) -> list[dict[str, Any]]:
        """Everything that is still kept, oldest first."""
        return [data for data, _ in self._words]


def _is_piece(data: Mapping[str, Any]) -> bool:
    """Whether this is a piece of a text that goes on, as models send it."""
    return len(data) == 1 and isinstance(data.get("text"), str)


class ProgressReader:
    """One reader of one run: what was said before it came, then each word; the oldest dropped first."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._unread: list[bytes] = []
        self._ring = ring

    def hear(self, told: bytes) -> None:
        """Take in one message."""
        self._unread.append(told)
        del self._unread[:-UNREAD_MAX]
        self._ring()

    def take(self) -> bytes:
        """Everything said since, as messages without an id."""
        told = b"".join(self._unread)
        self._unread.clear()
        return told


class ProgressFeed:
    """Everything that is being said in the runs of this process."""

    def __init__(self, host: OpenHost) -> None:
        self._host = host
        self._spoken: OrderedDict[tuple[str, str], ProgressText] = OrderedDict()
        self._readers: dict[str, list[ProgressReader]] = {}
        host.hear_all(self.hear)

    def hear(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        """An effect said something."""
        shown = harmless(dict(data))
        told = message("progress", {"contract_id": contract_id, "data": shown})
        spoken = self._spoken.pop((run_id, contract_id), None) or ProgressText()
        self._spoken[run_id, contract_id] = spoken
        spoken.add(shown, len(told))
        if len(self._spoken) > CONTRACTS_MAX:
            self._spoken.popitem(last=False)
        for reader in self._readers.get(run_id, ()):
            reader.hear(told)

    def open(self, run_id: str, ring: Callable[[], None]) -> ProgressReader:
        """Somebody begins to listen to a run; to be closed again."""
        reader = ProgressReader(ring)
        for contract_id in self._host.at_work(run_id):
            spoken = self._spoken.get((run_id, contract_id))
            if spoken is not None:
                reader.hear(message("said", {"contract_id": contract_id, "data": spoken.words}))
        self._readers.setdefault(run_id, []).append(reader)
        return reader

    def close(self, run_id: str, reader: ProgressReader) -> None:
        """One listener less."""
        readers = self._readers.get(run_id, [])
        if reader in readers:
            readers.remove(reader)
        if not readers:
            self._readers.pop(run_id, None)
