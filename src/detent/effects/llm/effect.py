"""The effect `llm`: one question to a model, and its answer.

    messages     [{role, content, tool_calls, tool_call_id}]; role is system, user, assistant or tool
    model        another model than DETENT_MODEL, for example openai:NAME
    tools        [{name, description, schema}] that the model may ask for; asking is all it can do
    schema       a JSON Schema that the answer must fit
    max_tokens, temperature
    malformed    what to do with a tool call whose arguments are no JSON object: `fail` (the call of the model has
                 failed, and may be tried again), or `tell` (the tool call has a `problem`, for the model to mend)

The result is `{success, text, tool_calls, json, model, finish, usage, cost_usd}`; `json` is there when a schema was
given. The call and its result are the contract, so they are in the journal and a replay never asks the model again.
Tokens and cost count against the run's limits. A cost that is not known is null, and `note` says why.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, effect
from detent.core.progress import say
from detent.core.schema import problems
from detent.effects.arguments import invalid
from detent.effects.llm.json_answer import decode_json
from detent.effects.llm.model import BAD_ANSWER, Reply, Request
from detent.effects.llm.price import OWN_TABLE, cost
from detent.effects.llm.settings import Choice, choose_model, hide_keys

TIMEOUT_S = 180.0


@effect("llm", kind="idempotent", timeout_s=TIMEOUT_S, settle_s=0.0)
async def _llm(contract: Contract) -> Outcome:
    """Ask a language model and take its answer."""
    request = _request(contract)
    choice = choose_model(request.model)

    def hear(piece: str) -> None:
        say(contract, {"text": piece})  # the host looks at the pieces as one text

    try:
        reply = await choice.open().answer(request, hear)
    except EffectFailed as error:
        raise EffectFailed(hide_keys(str(error)), error.type, error.result) from None  # the cause may hold headers
    return _outcome(request, choice, reply)


llm = replace(_llm, declared=replace(_llm.declared, is_priced=True))


def _request(contract: Contract) -> Request:
    given = {name: value for name, value in contract.input.items() if value is not None}
    try:
        request = msgspec.convert(given, Request)
    except msgspec.ValidationError as error:
        raise invalid(f"`llm`: {error}") from error
    if not request.messages:
        raise invalid("`messages` of `llm` must have at least one message")
    if request.max_tokens is not None and request.max_tokens < 1:
        raise invalid("`max_tokens` of `llm` must be at least 1")
    for position, message in enumerate(request.messages):
        if message.role == "tool" and not message.tool_call_id:
            raise invalid(f"`messages[{position}]` of `llm` is a tool's result and needs `tool_call_id`")
    return request


def _outcome(request: Request, choice: Choice, reply: Reply) -> Outcome:
    text = hide_keys(reply.text)
    tokens = (reply.input_tokens or 0) + (reply.output_tokens or 0)
    dollars = 0.0 if choice.is_builtin else cost(choice.name, reply, is_elsewhere=bool(choice.server))
    spent = {"cost_usd": dollars} if dollars is not None else {"unpriced_calls": 1.0}
    usage = {"tokens": float(tokens), **spent}
    calls = [{name: value for name, value in call.items() if name != "problem" or value}
             for call in msgspec.to_builtins(reply.tool_calls)]  # fmt: skip
    result: dict[str, Any] = {
        "success": reply.finish != "refusal",
        "text": text,
        "tool_calls": hide_keys(calls, is_free=False),
        "model": choice.spec,
        "finish": reply.finish,
        "usage": {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0},
        "cost_usd": dollars,
    }
    if dollars is None:
        why = "is in no price table" if reply.input_tokens is not None else "did not say how many tokens it used"
        result["note"] = f"the cost is not known: `{choice.spec}` {why} ({OWN_TABLE} names a table of your own)"
    if request.schema is not None and not reply.tool_calls and reply.finish != "refusal":
        result["json"] = _fitting(request.schema, text, reply.finish, usage)
    return Outcome(result, usage=usage)


def _fitting(schema: dict[str, Any], text: str, finish: str, usage: dict[str, float]) -> Any:
    """The answer as data, if it is what was asked for."""
    value = decode_json(text)
    wrong = problems(schema, value, "answer")
    if value is None and text.strip() != "null":
        cause = "it was cut off at max_tokens" if finish == "length" else "it is not JSON"
        wrong = [cause]
    if wrong:
        message = f"the model's answer does not fit the schema: {'; '.join(wrong[:5])}"
        raise EffectFailed(message, BAD_ANSWER, {"text": text[:2000]}, usage)
    return value
