"""What effects say while they are at work, without secrets; texts that come in pieces are looked at as one."""

from collections.abc import Mapping
from typing import Any

from detent.redaction import RedactionStream, ambient_redactor

Words = dict[str, Any]


class SpokenWords:
    """The texts that the contracts at work are saying, by run and contract."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], dict[str, tuple[RedactionStream, Words]]] = {}

    def take(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> list[Words]:
        """What may be passed on now; what may be the beginning of a secret waits for the next piece."""
        name, words = _piece_of(data)
        if not name:
            return [ambient_redactor().hide_in(dict(data), is_free=True)]
        texts = self.texts.setdefault((run_id, contract_id), {})
        passed = [] if name in texts else self.finish(run_id, contract_id)  # another text: the one before has ended
        stream, _ = self.texts.setdefault((run_id, contract_id), texts).setdefault(
            name, (RedactionStream(ambient_redactor()), words)
        )
        text = stream.feed(_text_of(words) + ("\n" if name.startswith("line ") else ""))
        return passed + _word_of(name, words, text)

    def finish(self, run_id: str, contract_id: str) -> list[Words]:
        """The contract says nothing more: what was still waiting."""
        passed: list[Words] = []
        for name, (stream, words) in self.texts.pop((run_id, contract_id), {}).items():
            passed += _word_of(name, words, stream.finish())
        return passed


def _piece_of(data: Mapping[str, Any]) -> tuple[str, Words]:
    """The name of the text that this is a piece of, if it is one: a model's, a line of a program, a cell's output."""
    words = dict(data)
    output = words.get("output")
    if isinstance(output, dict) and output.get("output_type") == "stream" and isinstance(output.get("text"), str):
        return f"output {output.get('name', '')}", words
    if not isinstance(words.get("text"), str):
        return "", words
    if len(words) == 1:
        return "text", words
    return (f"line {words['stream']}", words) if set(words) == {"stream", "text"} else ("", words)


def _text_of(words: Words) -> str:
    return str(words["output"]["text"] if "output" in words else words["text"])


def _word_of(name: str, words: Words, text: str) -> list[Words]:
    if not text:
        return []
    if "output" in words:
        return [{**words, "output": {**words["output"], "text": text}}]
    return [{**words, "text": text.removesuffix("\n") if name.startswith("line ") else text}]
