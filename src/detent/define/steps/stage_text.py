"""The text of a pipeline: stages joined by `|`, each a name with its arguments, taken apart when the file is loaded.

References are filled in word by word, so no value can add a stage or an argument.
"""

import json
from typing import Any, NamedTuple

from detent.define.steps.reference import StepScope, render_text

STAGES = (
    "exec", "where", "pick", "head", "map", "sort", "dedupe", "groupBy", "table", "json", "template", "approve", "ask",
    "state.get", "state.set", "diff.last", "llm.invoke",
)  # fmt: skip
GATES = ("approve", "ask")
PURE = frozenset({"where", "pick", "head", "map", "sort", "dedupe", "groupBy", "table", "json", "state.get"})
SPACES = " \t\r\n"
ESCAPED = '"\\$`'
ASK_SCHEMA = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["approve", "reject", "redraft"]},
        "feedback": {"type": "string", "description": "Feedback for redraft"},
    },
    "required": ["decision"],
}


class BadPipeline(ValueError):
    """A pipeline that cannot be understood."""


class PipelineStage(NamedTuple):
    """One stage; arguments without a name are under `_`."""

    name: str
    arguments: dict[str, Any]

    @property
    def is_pure(self) -> bool:
        """Whether it touches nothing outside; a template in a file is read from there."""
        return self.name in PURE or (self.name == "template" and "file" not in self.arguments)

    def render(self, scope: StepScope) -> dict[str, Any]:
        """The stage as the effect wants it, with its references as expressions."""
        words = [render_text(word, scope) for word in self.arguments["_"]]
        named = {
            name: render_text(value, scope) if isinstance(value, str) else value
            for name, value in self.arguments.items()
            if name != "_"
        }
        return {"name": self.name, "words": words, "options": named}


def parse_pipeline(text: str) -> list[PipelineStage]:
    """The stages of a pipeline; raises BadPipeline."""
    stages = [_parse_stage(words) for words in _split_words(text)]
    if not stages:
        raise BadPipeline("the pipeline is empty")
    return stages


def _parse_stage(words: list[str]) -> PipelineStage:
    name = words[0]
    if name not in STAGES:
        raise BadPipeline(f"unknown stage `{name[:60]}`; known: {', '.join(STAGES)}")
    named: dict[str, Any] = {"_": []}
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("--"):
            named["_"].append(word)
        elif "=" in word:
            key, _, value = word[2:].partition("=")
            named[key] = value
        elif at < len(words) and not words[at].startswith("--"):
            named[word[2:]] = words[at]
            at += 1
        else:
            named[word[2:]] = True
    return PipelineStage(name, named)


def _split_words(text: str) -> list[list[str]]:
    """The words of every stage, quotes taken off."""
    stages: list[list[str]] = []
    words: list[str] = []
    word: str | None = None
    mark, at = "", 0
    while at < len(text):
        character, following = text[at], text[at + 1 : at + 2]
        at += 1
        if mark:
            is_escape = character == "\\" and (following == mark if mark == "'" else following and following in ESCAPED)
            if character == mark:
                mark = ""
            elif is_escape:
                word, at = (word or "") + following, at + 1
            else:
                word = (word or "") + character
        elif character in "\"'":
            mark, word = character, word or ""
        elif character == "|" or character in SPACES:
            words += [word] if word else []
            word = None
            if character == "|":
                stages.append(words)
                words = []
        else:
            word = (word or "") + character
    if mark:
        raise BadPipeline("a quote is not closed")
    words += [word] if word else []
    stages += [words] if words else []
    if any(not one for one in stages):
        raise BadPipeline("a stage is empty")
    return stages


def ask_schema(stage: PipelineStage) -> dict[str, Any]:
    """The JSON Schema of what an `ask` stage wants to know."""
    said = stage.arguments.get("schema")
    if said is None:
        return ASK_SCHEMA
    try:
        found = json.loads(str(said))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadPipeline("`ask --schema` must be a JSON Schema, a JSON object")
    return found
