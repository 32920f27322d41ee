"""The assistant as one machine: intent, emotion, memory, reasoning, and then tools, a form, or the end.

One run is one turn of a conversation; the session's name ties the turns together. A tool whose deed cannot be taken
back is asked about first, with the exact call. `call` in the context is the tool call that reasoning has decided on,
and its `way` the action that carries it out: `use` (harmless), `call` (asked first), `keyed` (also with its own key).
Where the model wants several at once, they are `steps` instead: lists of calls, one list after the other, in the order
the model gave them. Harmless neighbours stand in one list and go side by side; an irreversible call has its own.
"""

from typing import Any

from detent.core.machine import Action, Branch, Limits, Machine, Retry, table
from detent.core.question import Question

TURNS_MAX = 50  # transitions of one turn
CALLS_MAX = 50  # that one answer of the model may ask for
AT_ONCE_MAX = 8  # calls side by side
RETRY = Retry(limit=2, on=("tool_failure", "timeout"), delay_s=0.5, delay_s_max=10.0)

_FACTS = {
    "call": "{{ context.call }}",
    "form": "{{ context.form }}",
    "outcomes": {
        "use": "{{ result.use }}",
        "call": "{{ result.call }}",
        "keyed": "{{ result.keyed }}",
        "form": "{{ result.form }}",
    },
    "answers": "{{ approval }}",
    "steps": "{{ context.steps or [] }}",
    "came": "{{ result.steps or {} }}",
    "error": "{{ error }}",
}


def _ways(call: str, **more: Any) -> tuple[Action, ...]:
    """The three actions that carry out the call at this place of the scope, each for its own way."""
    tool, given, ask = f"{{{{ {call}.effect }}}}", f"{{{{ {call}.arguments }}}}", Question(f"{{{{ {call}.question }}}}")
    again = f"{{{{ {call}.repeat or '' }}}}"
    return (
        Action("use", tool, given, on_repeat="refuse", when=f"{call}.way == 'use'", **more),
        Action("call", tool, given, kind="irreversible", ask=ask, repeat=again, on_repeat="refuse",
               when=f"{call}.way == 'call'", **more),
        Action("keyed", tool, given, kind="irreversible", ask=ask, repeat=again, on_repeat="refuse",
               key=f"{{{{ {call}.key }}}}", when=f"{call}.way == 'keyed'", **more),
    )  # fmt: skip


# What came of a call stands beside its number: where a state fails on the way, older results must not pass for it.
_CAME = Action("came", "keep", {
    "value": {"no": "{{ item.no }}", "outcome": "{{ result[item.way] }}", "answer": "{{ approval[item.way] }}"},
})  # fmt: skip
_CALLS = Action("calls", "branches", each="{{ item }}", at_once=AT_ONCE_MAX, tolerate=CALLS_MAX,
                branches=(Branch("call", (*_ways("item", tolerate=1), _CAME)),))  # fmt: skip
_STEPS = Action("steps", "branches", each="{{ context.steps }}", at_once=1, tolerate=CALLS_MAX,
                branches=(Branch("step", (_CALLS,)),), when="context.steps")  # fmt: skip

ASSISTANT = Machine(
    name="assistant",
    title="An assistant with tools that cannot pay twice",
    initial="intent",
    transitions=table("""
        intent     -            emotion
        emotion    -            memory
        memory     -            end        if not context.message
        memory     -            reasoning
        reasoning  TOOL         tools
        reasoning  ASK          ask
        reasoning  END          end
        reasoning  AGAIN        reasoning
        tools      -            reasoning
        tools      !*           reasoning
        ask        ANSWERED     intent
        ask        SHOWN        end
        ask        !*           reasoning
        *          !loop_limit  stopped
    """),
    work={
        "intent": (
            Action("intent", "assistant.intent", {
                "text": "{{ context.message }}",
                "tools": "{{ context.tools }}",
                "mode": "{{ context.settings.intent }}",
                "keywords": "{{ context.settings.keywords or {} }}",
            }, retry=RETRY),
        ),
        "emotion": (Action("emotion", "assistant.emotion", {"text": "{{ context.message }}"}),),
        "memory": (
            # A summary is a help: where the model cannot give one, the turn goes on with all that was said.
            Action("compact", "assistant.compact", {
                "history": "{{ context.history }}",
                "message": "{{ context.message }}",
                "session": "{{ run.session }}",
                "settings": "{{ context.settings }}",
            }, when="context.must_compact", retry=RETRY, tolerate=1),
            Action("recall", "assistant.recall", {
                "text": "{{ context.message }}",
                "intent": "{{ context.intent }}",
                "session": "{{ run.session }}",
                "facts": "{{ context.facts or [] }}",
            }),
        ),
        "reasoning": (
            Action("store", "assistant.store", {
                **_FACTS,
                "session": "{{ run.session }}",
                "run_id": "{{ run.id }}",
            }, when="context.call or context.steps or context.form"),
            Action("think", "assistant.think", {
                **_FACTS,
                "message": "{{ context.message }}",
                "images": "{{ context.images }}",
                "history": "{{ context.history }}",
                "intent": "{{ context.intent }}",
                "emotion": "{{ context.emotion }}",
                "memories": "{{ context.memories }}",
                "working": "{{ context.working }}",
                "passages": "{{ context.passages or [] }}",
                "tools": "{{ context.tools }}",
                "executions": "{{ context.executions }}",
                "settings": "{{ context.settings }}",
                "felt": "{{ context.felt }}",
                "turn": "{{ context.turn }}",
            }, retry=RETRY),
            Action("keep", "assistant.keep", {
                "entries": "{{ context.to_store }}",
                "session": "{{ run.session }}",
            }, when="context.to_store"),
        ),
        "tools": (*_ways("context.call"), _STEPS),
        "ask": (Action("form", "assistant.form", {
            "form": "{{ context.form }}",
            "message": "{{ context.message }}",
            "response": "{{ context.response }}",
            "history": "{{ context.history }}",
            "turn": "{{ context.turn }}",
        }),),
    },
    ends={"end": "completed", "stopped": "failed"},
    asks=("irreversible",),  # whatever reasoning took a tool for: what its effect declares has the last word
    limits=Limits(max_transitions=TURNS_MAX),
    output={
        "response": "{{ context.response }}",
        "emotion": "{{ context.detected }}",
        "executions": "{{ context.executions }}",
        "memories": "{{ context.stored }}",
        "is_forced_stop": "{{ context.is_forced_stop }}",
    },
)  # fmt: skip

MACHINES = (ASSISTANT,)
