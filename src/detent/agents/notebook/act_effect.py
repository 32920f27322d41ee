"""The effects of actions: `notebook.act`, `.once`, `.record`, `.next` and `.confirm`.

What an action did and which action comes next are one journal entry, so a crash finds either both or neither.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from detent.agents.notebook.action import code_cell
from detent.agents.notebook.action_context import CellNotFound, ScriptStore
from detent.agents.notebook.cell import Cell, Output, metadata_of
from detent.agents.notebook.cell_risk import names_stored
from detent.agents.notebook.cell_text import action_of, code_of
from detent.agents.notebook.kernel_restore import read_cell, speaks_python, way_given
from detent.agents.notebook.kernel_session import NeedsConsent, describe_effects, limits, outputs_of, variable_changes
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.plan_effect import consent
from detent.agents.notebook.repair_rule import repair
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.core.progress import voice
from detent.core.question import Question

if TYPE_CHECKING:
    from detent.agents.notebook.jupyter import CellExecution, Kernel
    from detent.agents.notebook.service import Notebooks

REPAIRS_MAX = 3
FOREIGN_PLANNERS = ("llm", "http")


class CellFailed(Exception):
    """A cell ended in a way that ends the behaviour: its kernel died, or its time was over. It may have come far."""

    def __init__(self, message: str, type: str) -> None:
        super().__init__(message)
        self.type = type


def doorway(store: ScriptStore, action: dict[str, Any], number: int) -> dict[str, Any]:
    """Which effect carries out an action, and with what: a cell that must not run twice is irreversible.

    The call of a cell is its code, with what was read in it: that is what a person sees, and what an approval is for.
    """
    cell = store.cell(str(action.get("codecell_id") or "")) if action.get("action") == "exec" else None
    if cell is None or cell.type != "code":
        return {"door": "notebook.act", "call": {"n": number}}
    found = read_cell(store.book, cell.content)
    is_asked = bool(found) and is_reviewed(store.book)
    is_once = (action.get("repeat") or cell.repeat) == "once" or any(one.is_deed for one in found)
    told = {"found": [str(one) for one in found]} if found else {}
    if is_asked or is_once:
        call = {"done": _times_done(store, cell), "action": "exec", "cell_id": cell.id, "code": cell.content, **told}
        return {"door": "notebook.once", "call": call}
    return {"door": "notebook.act", "call": {"n": number, "cell_id": cell.id, "code": cell.content, **told}}


def is_reviewed(book: NotebookState) -> bool:
    """Whether somebody is asked before a risky cell runs: where a person who is not here wrote the code."""
    given = book.given_input
    is_foreign = (given.get("planner") or {}).get("use") in FOREIGN_PLANNERS
    return given.get("review") == "risky" or (is_foreign and not given.get("review"))


def _times_done(store: ScriptStore, cell: Cell) -> int:
    """How often a cell came to its end: one that was cut short is the same deed when it is wanted again."""
    ends = ("ok",) if store.book.given_input.get("on_cell_error") == "fail" else ("ok", "error")
    executed = [*store.book.executed, *store.changes.get("executed", ())]
    return sum(one["cell_id"] == cell.id and one["code"] == cell.content and one["ran"] in ends for one in executed)


class Acting:
    """One action of the queue."""

    def __init__(self, notebooks: "Notebooks", book: NotebookState, contract: Contract) -> None:
        self.notebooks, self.book, self.contract = notebooks, book, contract
        self._say = voice(contract)  # a kernel's output comes in by a task that serves many cells
        self.store = ScriptStore(book, notebooks.registry, self._run_cell)

    async def perform(self) -> Outcome:
        """Carry it out; its result holds what it changed."""
        self._within_limit()
        step = action_of(self.book.queue[self.book.position])
        self._say({"action": step["action"], "position": self.book.position + 1, "of": len(self.book.queue)})
        try:
            result = await self.store.exec_action(step)
        except CellNotFound as error:
            raise EffectFailed(str(error), "tool_failure.not_found", self._record_failure(step)) from error
        except CellFailed as error:
            raise PartialFailure(str(error), error.type, self._record_failure(step)) from error
        except (NeedsConsent, OutcomeUnknown):
            raise
        except asyncio.CancelledError:
            await asyncio.shield(self.notebooks.bench.drop(self.book.run.id))
            raise
        except EffectFailed:
            raise
        except Exception as error:  # noqa: BLE001  # a custom action is somebody else's code
            problem = f"{type(error).__name__}: {error}"
            self.store.warn(f"the action `{step['action']}` failed: {problem}")
            result = {"success": False, "error": problem, "action_id": self.store.action_id}
        return self._conclude(step, result)

    def _within_limit(self) -> None:
        most = int(self.book.given_input.get("max_steps") or 0)
        if most and 2 * self.book.actions_done >= most:  # an action counts as two steps: running and completed
            raise EffectFailed(f"the run was allowed {most} steps and has taken them", type="tool_failure.step_limit")

    def _finish(self, step: dict[str, Any], word: str) -> None:
        section = step["action"] == "new_section" or metadata_of(step.get("metadata")).is_section
        self.store.changes["done"] = {"action": step["action"], "result": word, "is_section": section}
        state = step.get("state")
        if isinstance(state, dict):
            self._replace_context(state)

    def _replace_context(self, state: dict[str, Any]) -> None:
        """An action may bring a whole context with it; effects stay."""
        if isinstance(state.get("variables"), dict):
            self.store.set("given", state["variables"])
        if isinstance(state.get("to_do_list", state.get("toDoList")), list):
            self.store.set("todo", state.get("to_do_list", state.get("toDoList")))
        if isinstance(state.get("section_progress"), dict):
            self.store.set("section_progress", state["section_progress"])

    def _record_failure(self, step: dict[str, Any]) -> dict[str, Any]:
        """What a failed action leaves in the notebook."""
        self._finish(step, "error")
        return {"success": False, "changes": self.store.changes}

    def _conclude(self, step: dict[str, Any], result: Any) -> Outcome:
        store, book = self.store, self.book
        word = "skipped" if result is None else "success" if result.get("success") else "error"
        self._finish(step, word)
        told_as = {"success": True, "action": step["action"], "outcome": result, "changes": store.changes}
        if store.raised and word == "success":
            return Outcome(told_as, raises=store.raised)
        is_cell_error = word == "error" and step["action"] == "exec" and store.kernel
        policy = book.given_input.get("on_cell_error") or "feedback"
        if is_cell_error and policy == "fail":
            message = f"the cell raised {store.kernel.get('ename')}: {store.kernel.get('evalue')}"
            raise PartialFailure(message, type="tool_failure.cell", result={"changes": store.changes})
        if is_cell_error and policy == "feedback":
            return Outcome(told_as, raises="COMPLETE_ACTION COMPLETE_BEHAVIOR")
        raised, patch = onward(store, book.position + 1, book.actions_done + 1)
        return Outcome(told_as, raises=f"COMPLETE_ACTION {raised}", patch=patch)

    # cells

    async def _run_cell(self, store: ScriptStore, cell: Cell, step: dict[str, Any]) -> dict[str, Any]:
        """Run a cell, repairing it where that was asked for; its outputs and effects become changes."""
        book = self.book
        self._review(cell)
        inputs = inputs_given(self.contract)
        self._refuse_second_start(inputs)
        await self._ask_after_crash(cell, inputs)
        kernel, notes = await self.notebooks.bench.ready(book, self._say, way_given(self.contract))
        for note in notes:
            store.add_effect(note)
        is_once = self.contract.effect == "notebook.once"
        repeat = "once" if is_once else step.get("repeat") or cell.repeat
        shown = step.get("need_output") is not False
        self._say({"cell": cell.id, "code": cell.content})
        executed: list[dict[str, Any]] = []
        repairs, limit = [*cell.repairs], limits(book)
        asyncio.get_running_loop().call_soon(self._read_ahead)  # while the kernel works, this process has time
        while True:
            execution = await kernel.execute(
                cell.content,
                on_output=self._pass_on,
                timeout_s=limit.timeout_s,
                grace_s=limit.grace_s,
                inputs=inputs,
            )
            self._ask_for_input(cell, execution, inputs)
            repeat = "once" if execution.deeds else repeat
            executed.append(self._enter_row(cell, execution, repeat, inputs))
            may_repair = step.get("auto_debug") is True and repeat != "once" and len(executed) <= REPAIRS_MAX
            better = await self._repair(cell, execution, repairs, len(executed)) if may_repair else None
            if better is None:
                break
            cell = replace(cell, content=code_of(str(better["code"])))
            repairs.append(str(better.get("why") or "repaired"))
            self._say({"repair": repairs[-1], "code": cell.content})
        store.changes["executed"] = executed
        self._enter_cell(cell, execution, repeat, shown, repairs, step)
        self._update_displays(execution)
        await self._keep_state(kernel, execution, len(executed), is_due=repeat == "once")
        return self._judge(execution, cell)

    def _read_ahead(self) -> None:
        """Read the cell that comes next: its reading is kept, and what follows this cell needs it at once."""
        at = self.book.position + 1
        step = action_of(self.book.queue[at]) if at < len(self.book.queue) else {}
        cell = self.book.cell(str(step.get("codecell_id") or "")) if step.get("action") == "exec" else None
        if cell is not None and cell.type == "code":
            read_cell(self.book, cell.content)

    def _enter_row(
        self, cell: Cell, execution: "CellExecution", repeat: str, inputs: tuple[str, ...]
    ) -> dict[str, Any]:
        """What a new kernel must know of a cell that was run."""
        row = {"cell_id": cell.id, "code": cell.content, "repeat": repeat, "ran": execution.status}
        made = [] if execution.status == "dead" else [*variable_changes(self.book, execution).get("set", ())]
        more = {"names": made, "deeds": [*execution.deeds], "inputs": [*inputs]}
        return {**row, **{name: value for name, value in more.items() if value}}

    async def _keep_state(self, kernel: "Kernel", execution: "CellExecution", count: int, *, is_due: bool) -> None:
        """Keep the variables where doing everything again is not possible, or would take long."""
        store = self.store
        language = kernel.language_info
        is_usual = language.get("name") == "python" and speaks_python(self.book)
        if language and not is_usual and language != self.book.kernel_language:
            store.set("kernel_language", language)
        if execution.status in ("dead", "timeout") or language.get("name", "python") != "python":
            return
        made = await self.notebooks.bench.checkpoint(
            self.book, kernel, len(self.book.executed) + count, worked_s=execution.duration_s, is_due=is_due
        )
        if "problem" in made:
            store.warn(f"the kernel's variables could not be kept: {made['problem']}")
        elif made:
            store.changes["checkpoint"] = made

    def _ask_for_input(self, cell: Cell, execution: "CellExecution", inputs: tuple[str, ...]) -> None:
        """A cell that calls `input()` waits for a person, in this process or after a restart."""
        if execution.status != "asking" or execution.asks is None:
            return
        data = {"cell_id": cell.id, "input": len(inputs) + 1, "deeds": [*execution.deeds]}
        text = execution.asks.strip() or f"The cell {cell.id} asks for input."
        schema = {
            "type": "object",
            "properties": {"value": {"type": "string", "title": text}},
            "required": ["value"],
        }
        raise NeedsConsent(Question(text, "form", schema=schema, data=data))

    def _refuse_second_start(self, inputs: tuple[str, ...]) -> None:
        """A cell that touched the world and then asked for input cannot begin again in a new kernel."""
        is_deed = self.contract.effect == "notebook.once" or bool(self.contract.asked.get("deeds"))
        if inputs and is_deed and not self.notebooks.bench.is_asking(self.book.run.id):
            raise OutcomeUnknown("the cell had begun and asked for input; the kernel it waited in is gone")

    async def _ask_after_crash(self, cell: Cell, inputs: tuple[str, ...]) -> None:
        """A cell taken for pure that was about to touch the world when all died: nobody knows whether it did."""
        bench, is_agreed = self.notebooks.bench, len(self.contract.answers) > len(inputs)
        deeds = await bench.find_marks(self.book, cell.content) if self.contract.effect == "notebook.act" else []
        if deeds and not is_agreed:
            text = (
                f"This cell was about to touch the world when its kernel and detent ended ({'; '.join(deeds)}). "
                f"Nobody knows whether it did. May it run again?\n{cell.content}"
            )
            raise NeedsConsent(Question(text, data={"cell_id": cell.id, "code": cell.content, "deeds": deeds}))
        await bench.forget_marks(self.book)

    def _review(self, cell: Cell) -> None:
        """Ask before a cell that starts programs, uses the network, writes elsewhere or installs something."""
        if cell.deeds and cell.ran not in ("", "ok") and not self.contract.answers:
            told = "; ".join(cell.deeds)
            text = f"This cell was seen to touch the world before it failed ({told}). May it run again?\n{cell.content}"
            raise NeedsConsent(Question(text, data={"cell_id": cell.id, "code": cell.content, "deeds": [*cell.deeds]}))
        found = [] if self.contract.answers or not is_reviewed(self.book) else read_cell(self.book, cell.content)
        if found:
            told = "; ".join(map(str, found))
            reasons = list(dict.fromkeys(one.risk for one in found))
            data = {"cell_id": cell.id, "code": cell.content, "risks": reasons, "found": [*map(str, found)]}
            raise NeedsConsent(Question(f"This cell {told}. May it run?\n{cell.content}", data=data))

    def _risks(self, code: str) -> list[str]:
        """What speaks against running this code unseen, where cells are reviewed at all."""
        found = read_cell(self.book, code) if is_reviewed(self.book) else []
        return list(dict.fromkeys(one.risk for one in found))

    def _pass_on(self, output: dict[str, Any]) -> None:
        self._say({"output": output})

    def _enter_cell(
        self, cell: Cell, execution: "CellExecution", repeat: str, shown: bool, repairs: list[str], step: dict[str, Any]
    ) -> None:
        store = self.store
        # Counted by us: after a resume the kernel's own count is another one, and the notebook must not show that.
        number = None if execution.execution_count is None else self.book.execution_count + 1
        outputs = _mark_displays(outputs_of(execution.outputs, number), execution.displays)
        store.put(
            replace(
                cell,
                outputs=outputs,
                execution_count=number,
                ran=execution.status,
                error=execution.error,
                duration_s=round(execution.duration_s, 3),
                need_output=shown,
                repeat=repeat,
                repairs=tuple(repairs),
                keep_debug_button_visible=step.get("keep_debug_button_visible") is True,
                deeds=execution.deeds,
            )
        )
        texts = describe_effects(execution, outputs)
        for text in texts if shown or execution.status != "ok" else ():
            store.add_effect(text)
        variables = (
            {} if execution.is_restarted or execution.status == "dead" else variable_changes(self.book, execution)
        )
        if variables:
            store.changes["variables"] = variables
        elif execution.is_restarted or execution.status == "dead":
            store.changes["kernel_gone"] = True

    def _update_displays(self, execution: "CellExecution") -> None:
        """A cell may change what an earlier cell shows."""
        for display_id, new in execution.updates.items():
            for cell in self.book.cells:
                if any(_display_of(output) == display_id for output in cell.outputs):
                    outputs = tuple(
                        replace(output, data=new["data"]) if _display_of(output) == display_id else output
                        for output in cell.outputs
                    )
                    self.store.put(replace(cell, outputs=outputs))

    async def _repair(
        self, cell: Cell, execution: "CellExecution", repairs: list[str], attempt: int
    ) -> dict[str, Any] | None:
        if execution.status != "error":
            return None
        variables = {name: variable.value for name, variable in execution.variables.items()}
        failure = {"code": cell.content, "error": execution.error, "attempt": attempt, "variables": variables}
        debugger = self.notebooks.advisers(self.book).debugger
        better = repair(failure)  # rules cost nothing; whoever plans is asked where they do not help
        if better is None and debugger is not None:
            better = await debugger.repair({**failure, "repairs": [*repairs]})
        code = code_of(str((better or {}).get("code", "")))
        new = [reason for reason in self._risks(code) if reason not in self._risks(cell.content)]
        if new:  # what a person agreed to, if anybody did, was the cell as it stood
            self.store.warn(f"a repair of {cell.id} was left out: the cell then {', '.join(new)}")
            return None
        return better if code.strip() not in ("", cell.content.strip()) else None

    def _judge(self, execution: "CellExecution", cell: Cell) -> dict[str, Any]:
        if execution.status == "ok":
            return {"cell_id": cell.id}
        error = execution.error or {"ename": execution.status, "evalue": ""}
        said = f"{error['ename']}: {error['evalue']}"
        if execution.status == "dead":
            raise CellFailed(said, "tool_failure.kernel_died")
        if execution.status == "timeout":
            raise CellFailed(said, "timeout.action")
        self.store.kernel = error
        return {
            "success": False,
            "error": f"Code execution failed: {said}",
            "action_id": self.store.action_id,
            "cell_id": cell.id,
        }


def inputs_given(contract: Contract) -> tuple[str, ...]:
    """What people have answered to a cell's `input()`, in their order."""
    said = [answer.data for answer in contract.answers if isinstance(answer.data, dict)]
    return tuple(str(one["value"]) for one in said if "value" in one)


def onward(store: ScriptStore, position: int, number: int) -> tuple[str, dict[str, Any]]:
    """What comes after an action: the next one of the queue, or the end of the behaviour."""
    queue = store.book.queue
    if position < len(queue):
        return "NEXT_ACTION", doorway(store, action_of(queue[position]), number)
    return "COMPLETE_BEHAVIOR", {}


def _mark_displays(outputs: tuple[Output, ...], displays: Mapping[str, list[int]]) -> tuple[Output, ...]:
    """Outputs that a later cell may change carry the id by which it will."""
    if not displays:
        return outputs
    found = list(outputs)
    for display_id, places in displays.items():
        for place in places:
            metadata = {**found[place].metadata, "detent": {"display_id": display_id}}
            found[place] = replace(found[place], metadata=metadata)
    return tuple(found)


def _display_of(output: Output) -> str:
    mark = output.metadata.get("detent")
    return str(mark.get("display_id", "")) if isinstance(mark, dict) else ""


async def record(book: NotebookState) -> Outcome:
    """Enter a person's word for what a cell did: it happened, and this is what came of it."""
    store = ScriptStore(book)
    step = action_of(book.queue[book.position])
    cell = code_cell(store, str(step.get("codecell_id") or ""))
    given = {name: value for name, value in book.run.results.get("act", {}).items() if name != "success"}
    text = str(given.get("value", given) if given else "")
    outputs = (Output("stream", content=text, text=text + "\n", name="stdout"),) if text else ()
    note = "A crash left open whether this cell ran; a person said that it did."
    number, shown = book.execution_count + 1, step.get("need_output") is not False
    store.put(replace(cell, ran="ok", outputs=outputs, note=note, execution_count=number, need_output=shown))
    row = {"cell_id": cell.id, "code": cell.content, "repeat": "once", "ran": "ok"}
    made = names_stored(cell.content) if speaks_python(book) else []  # nobody has seen them: a new kernel lacks them
    store.changes["executed"] = [{**row, "names": made} if made else row]
    store.add_effect(f"{note} {text}".strip())
    store.changes["done"] = {"action": step["action"], "result": "success", "is_section": False}
    raised, patch = onward(store, book.position + 1, book.actions_done + 1)
    result = {"success": True, "changes": store.changes}
    return Outcome(result, raises=f"COMPLETE_ACTION {raised}", patch=patch)


async def go_on(book: NotebookState) -> Outcome:
    """Go on where no action could say how: after a decision that came from outside."""
    raised, patch = onward(ScriptStore(book), book.position, book.actions_done)
    return Outcome({"success": True, "event": raised, "changes": {}}, raises=raised, patch=patch)


async def confirm(notebooks: "Notebooks", book: NotebookState, contract: Contract) -> Outcome:
    """Ask whether the plan may change, or say yes where the policy does."""
    is_workflow = book.state == "workflow_update_pending"
    if not contract.answers and not notebooks.is_agreed(book):
        return Outcome(question=consent(book, [book.pending]))
    event = "UPDATE_WORKFLOW_CONFIRMED" if is_workflow else "UPDATE_STEP_CONFIRMED"
    raised, patch = onward(ScriptStore(book), book.position, book.actions_done)
    return Outcome({"success": True, "event": event, "changes": {}}, raises=f"{event} {raised}", patch=patch)
