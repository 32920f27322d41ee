"""The assistant as one machine: intent, emotion, memory, reasoning, and then tools, a form, or the end.

One run is one turn of a conversation; the session's name ties the turns together. A tool whose deed cannot be taken
back is asked about first, with the exact call. `call` in the context is the tool call that reasoning has decided on,
and its `way` the action that carries it out: `use` (harmless), `call` (asked first), `keyed` (also with its own key).
"""

from detent.core.machine import Action, Limits, Machine, Retry, table
from detent.core.question import Question

TURNS_MAX = 50  # transitions of one turn
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
}
_TOOL = "{{ context.call.effect }}"
_GIVEN = "{{ context.call.arguments }}"
_ASK = Question("{{ context.call.question }}")
_AGAIN = "{{ context.call.repeat or '' }}"

ASSISTANT = Machine(
    name="assistant",
    title="An assistant with tools that cannot pay twice",
    initial="intent",
    transitions=table("""
        intent     -            emotion
        emotion    -            memory
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
            }, retry=RETRY),
        ),
        "emotion": (Action("emotion", "assistant.emotion", {"text": "{{ context.message }}"}),),
        "memory": (
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
            }, when="context.call or context.form"),
            Action("think", "assistant.think", {
                **_FACTS,
                "message": "{{ context.message }}",
                "images": "{{ context.images }}",
                "history": "{{ context.history }}",
                "intent": "{{ context.intent }}",
                "emotion": "{{ context.emotion }}",
                "memories": "{{ context.memories }}",
                "working": "{{ context.working }}",
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
        "tools": (
            Action("use", _TOOL, _GIVEN, on_repeat="refuse", when="context.call.way == 'use'"),
            Action("call", _TOOL, _GIVEN, kind="irreversible", ask=_ASK, repeat=_AGAIN, on_repeat="refuse",
                   when="context.call.way == 'call'"),
            Action("keyed", _TOOL, _GIVEN, kind="irreversible", ask=_ASK, repeat=_AGAIN, on_repeat="refuse",
                   key="{{ context.call.key }}", when="context.call.way == 'keyed'"),
        ),
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
