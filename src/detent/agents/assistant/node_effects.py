"""The nodes of the graph as effects, each behind one small port: give another function and that node is replaced."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.agents.assistant import compaction, emotion, form, intent, reasoning, recall, result_fact
from detent.agents.assistant.memory_store import Memory, Passage, Store
from detent.agents.assistant.turn import COMPACT_AT
from detent.core.contract import Contract
from detent.core.effect_type import Declared, Effect, EffectFailed, Outcome, Perform
from detent.core.progress import speaking_for
from detent.core.value import canonical

MEMORY_FILE = "memory.db"
THINK_S = 180.0
NODES = {
    "intent": "What a message is about.",
    "emotion": "How a message feels.",
    "recall": "What is remembered that matters now.",
    "compact": "Summarise the oldest part of a long conversation.",
    "store": "Keep what came of a contract.",
    "think": "Ask the model what to do next.",
    "keep": "Remember what the model found worth it.",
    "form": "Put a form or a display before a person.",
}


def effects(home: Path, model: Perform | None = None, **replaced: Perform) -> list[Effect]:
    """The assistant's effects on the memory in `home`; `model` is who is asked, by default the effect `llm`."""
    unknown = [name for name in replaced if name not in NODES]
    if unknown:
        raise TypeError(f"there is no node `{unknown[0]}`; nodes: {', '.join(NODES)}")
    ask = model or _llm
    store = Store(home / MEMORY_FILE)
    nodes: dict[str, Perform] = {
        "intent": _intent(ask),
        "emotion": _emotion,
        "recall": _recall(store),
        "compact": _compact(ask, store),
        "store": _store(store),
        "think": _think(ask),
        "keep": _keep(store),
        "form": _form,
    }
    nodes |= replaced
    limits = {"think": THINK_S, "intent": THINK_S, "compact": THINK_S}
    return [
        Effect(
            f"assistant.{name}", perform, Declared("idempotent", limits.get(name, 60.0), "run", 0.0), about=NODES[name]
        )
        for name, perform in nodes.items()
    ]


async def _llm(contract: Contract) -> Any:
    from detent.effects.llm import llm  # noqa: PLC0415  # the model's library is for those who talk to one

    return await llm.perform(contract)


async def _ask_model(
    ask: Perform, contract: Contract, request: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, float]]:
    """A model's answer to a request made in the name of a contract, and what it used."""
    inner = replace(contract, effect="llm", input=request)
    with speaking_for(contract, inner):
        outcome = await ask(inner)
    if isinstance(outcome, Outcome):
        return (outcome.result if isinstance(outcome.result, dict) else {}), outcome.usage
    return dict(outcome or {}), {}


def _intent(ask: Perform) -> Perform:
    async def perform(contract: Contract) -> Outcome:
        text, mode = str(contract.input.get("text") or ""), contract.input.get("mode")
        if mode == "off":
            return Outcome({}, patch={"intent": {}})
        words = contract.input.get("keywords") or {}
        found, usage = intent.by_rules(text, contract.input.get("tools") or (), words), dict[str, float]()
        if found is None and mode == "rules":
            found = dict(intent.FALLBACK)
        if found is None:
            try:
                answer, usage = await _ask_model(ask, contract, intent.request(text))
                found = intent.by_model(answer.get("json"))
            except EffectFailed as error:
                # Knowing the intent is a help, not a condition: an answer that is no JSON must not end the turn.
                if error.type != "tool_failure.bad_answer":
                    raise
                found, usage = dict(intent.FALLBACK), _usage_of(error)
        return Outcome(found, patch={"intent": found}, usage=usage)

    return perform


def _usage_of(error: EffectFailed) -> dict[str, float]:
    """What a call that failed used up all the same."""
    return dict(getattr(error, "usage", None) or {})


async def _emotion(contract: Contract) -> Outcome:
    felt = emotion.detect_emotion(str(contract.input.get("text") or ""))
    seen = emotion.context(felt)
    return Outcome(felt, patch={"felt": felt, "emotion": seen, "detected": felt})


def _recall(store: Store) -> Perform:
    def look(
        text: str, topic: str, session: str, facts: Sequence[dict[str, Any]]
    ) -> tuple[list[tuple[float, Memory]], dict[str, str], list[Passage]]:
        if facts:
            store.keep(facts, session)  # of turns that were cancelled; each has its source, so it is there once
        best = recall.choose_memories(store.candidates(text), text, store.now(), topic)
        if best:
            store.touch([memory.id for _, memory in best])
        return best, store.working(session), store.passages(session, text, compaction.PASSAGES_TOLD) if text else []

    async def perform(contract: Contract) -> Outcome:
        given = contract.input
        found = given.get("intent") or {}
        topic = str(found.get("intent_type", "")) if found.get("category") == "memory" else ""
        text, session = str(given.get("text") or ""), str(given.get("session") or "")
        best, working, found = await asyncio.to_thread(look, text, topic, session, given.get("facts") or ())
        memories = [recall.describe_memory(memory, value) for value, memory in best]
        patch: dict[str, Any] = {"memories": memories, "working": working}
        if found:
            patch["passages"] = [{"role": one.role, "content": one.content[: compaction.PASSAGE_MAX]} for one in found]
        return Outcome({"retrieved": len(memories)}, patch=patch)

    return perform


def _compact(ask: Perform, store: Store) -> Perform:
    async def perform(contract: Contract) -> Outcome:
        given = contract.input
        history, settings = list(given.get("history") or ()), given.get("settings") or {}
        room = int(settings.get("compact_at") or COMPACT_AT) if given.get("message") else 0  # `/compact`: all of it
        old, kept = compaction.split_history(history, room)
        if not old:
            return Outcome({"put_aside": 0}, patch={"must_compact": False})
        # Kept before anything is asked: whatever becomes of the summary, no word is lost.
        told = [one for one in old if not str(one.get("content", "")).startswith(compaction.LABEL)]
        count = await asyncio.to_thread(store.put_aside, str(given.get("session") or ""), told, contract.key)
        answer, usage = await _ask_model(ask, contract, compaction.request(old, str(settings.get("model") or "")))
        text = str(answer.get("text") or "").strip()
        if not text:
            raise EffectFailed("the model gave no summary", "tool_failure.bad_answer", usage=usage)
        patch = {"history": [compaction.render_summary(text, len(old)), *kept], "must_compact": False}
        result = {"put_aside": count, "kept": len(kept), "summary": text[: compaction.SUMMARY_MAX]}
        return Outcome(result, patch=patch, usage=usage)

    return perform


def _store(store: Store) -> Perform:
    """Execution facts: what came of the contract that has just ended, at the level people may see."""

    async def perform(contract: Contract) -> Outcome:
        given = contract.input
        keep = _keep_form if given.get("form") else _keep_calls
        kept = await asyncio.to_thread(keep, store, given, contract.key)
        return Outcome({"count": len(kept), "entries": kept})

    return perform


def _keep_calls(store: Store, given: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    call, facts = given.get("call"), list(result_fact.of_steps(given))
    if call:
        facts.append(result_fact.make_fact(call, given.get("outcomes") or {}, given.get("answers") or {}))
    entries = [{"category": "execution", "key": told["view"]["action_summary"], "value": told["line"],
                "source": source if call else f"{source}#{number}"} for number, told in enumerate(facts)]  # fmt: skip
    return store.keep(entries, str(given.get("session") or ""))


def _keep_form(store: Store, given: Mapping[str, Any], _source: str) -> list[dict[str, Any]]:
    """A form's data goes to the session's working memory, and where its intent says so, to the lasting one."""
    asked, outcome = given.get("form"), (given.get("outcomes") or {}).get("form")
    data = outcome.get("data") if isinstance(outcome, Mapping) else None
    if not asked or not isinstance(data, dict):
        return []
    session, context = str(given.get("session") or ""), asked.get("context") or {}
    store.note(session, f"ecs_{asked['title']}", canonical(data).decode())
    lasting = form.LASTING.get(str(context.get("intent")))
    if lasting is None:
        return []
    category = str(context.get("memory_category") or lasting)
    labels = {field["name"]: field["label"] for field in asked.get("fields", ())}
    return store.keep([{"category": category, "key": labels.get(name, name), "value": result_fact.one_line(value)}
                       for name, value in data.items()], session)  # fmt: skip


def _keep(store: Store) -> Perform:
    async def perform(contract: Contract) -> Outcome:
        entries: Sequence[dict[str, Any]] = contract.input.get("entries") or ()
        kept = await asyncio.to_thread(store.keep, entries, str(contract.input.get("session") or ""))
        return Outcome({"count": len(kept), "entries": kept}, patch={"stored": kept, "to_store": []})

    return perform


def _think(ask: Perform) -> Perform:
    async def perform(contract: Contract) -> Outcome:
        given = contract.input
        done = reasoning.collect_done(given)
        answer, usage = await _ask_model(ask, contract, reasoning.request(given, done))
        event, patch = reasoning.decide(given, answer, done)
        told = {name: answer.get(name) for name in ("text", "tool_calls", "model", "usage", "cost_usd")}
        return Outcome({**told, "next": event}, raises=event, patch=patch, usage=usage)

    return perform


async def _form(contract: Contract) -> Outcome:
    """Ask with a form until it is answered; a display is shown and done."""
    wanted = contract.input["form"]
    if wanted["type"] == form.DISPLAY:
        return Outcome({"shown": True}, raises="SHOWN")
    if not contract.answers:
        return Outcome(question=form.question(wanted))
    data = contract.answers[-1].data
    if wrong := form.misfits(wanted, data):
        return Outcome(question=form.question(wanted, wrong))
    history = [*(contract.input.get("history") or ()), {"role": "user", "content": contract.input.get("message") or ""}]
    if contract.input.get("response"):
        history.append({"role": "assistant", "content": contract.input["response"]})
    message = form.render_form(wanted, data)
    patch = {"message": message, "history": history, "images": [], "turn": (contract.input.get("turn") or 0) + 1}
    return Outcome({"data": data, "message": message}, raises="ANSWERED", patch=patch)
