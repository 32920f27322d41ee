"""The protocol's two endpoints as an OpenAPI document: enough to write a client from it alone."""

from typing import Any

from detent.agents.notebook.action import PROTOCOL
from detent.agents.notebook.machine import NOTEBOOK

_TEXTS = {"type": "array", "items": {"type": "string"}}
_OBJECT = {"type": "object"}
_IDS = {"type": ["string", "null"]}
_LEVEL = {
    "type": "object",
    "properties": {
        "completed": {"type": "array"},
        "current": _IDS,
        "remaining": _TEXTS,
        "iteration": {"type": "integer"},
        "focus": {"type": "string"},
        "current_outputs": {
            "type": "object",
            "properties": {"expected": _TEXTS, "produced": _TEXTS, "in_progress": _TEXTS},
        },
    },
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "output_type": {"type": "string", "enum": ["stream", "display_data", "execute_result", "error"]},
        "text": {"type": "string", "description": "Of a stream."},
        "data": {
            "type": "object",
            "description": "By MIME type, whole. builtin:analysis puts its figures into "
            "`application/vnd.detent.facts+json` and reads them here: pass on what the kernel sent.",
        },
        "ename": {"type": "string"},
        "evalue": {"type": "string"},
        "traceback": _TEXTS,
    },
}
_CELL = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "type": {"type": "string", "enum": ["markdown", "code", "thinking"]},
        "content": {"type": "string"},
        "phase_id": {"type": "string", "description": "The step_id under which the cell was added."},
        "outputs": {"type": "array", "items": _OUTPUT},
    },
}
_NOTEBOOK = {
    "type": "object",
    "description": "All cells so far, in their order, with their outputs.",
    "properties": {"title": {"type": "string"}, "cells": {"type": "array", "items": _CELL}},
}
_ACCEPTED = {
    "type": "object",
    "description": "By expression: what the kernel found when it was last asked.",
    "additionalProperties": {
        "type": "object",
        "properties": {"holds": {"type": "boolean"}, "value": {}, "error": {"type": "string"}},
    },
}
_STEP = {
    "type": "object",
    "properties": {
        "step_id": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string", "description": "The step's goal."},
        "expected": {**_TEXTS, "description": "Variables that the step must leave."},
        "acceptance": {**_TEXTS, "description": "Expressions that must hold before the step is done."},
    },
}
_STAGE = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "steps": {"type": "array", "items": _STEP},
    },
}
_UPDATE = {
    "type": "object",
    "properties": {
        "variables": {"type": "object", "description": "To be merged into context.variables."},
        "progress_update": {
            "type": "object",
            "properties": {"level": {"enum": ["stages", "steps", "behaviors"]}, "focus": {"type": "string"}},
        },
        "workflow_update": {
            "type": "object",
            "description": "The plan, or another one: its stages and steps in their order.",
            "properties": {
                "workflowTemplate": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "stages": {"type": "array", "items": _STAGE}},
                }
            },
        },
        "stage_steps_update": {
            "type": "object",
            "properties": {"stage_id": {"type": "string"}, "steps": {"type": "array", "items": _STEP}},
        },
    },
}
OBSERVATION: dict[str, Any] = {
    "type": "object",
    "description": "Where the run stands and what is known. Every part may be left out and then counts as empty.",
    "properties": {
        "location": {
            "type": "object",
            "properties": {
                "current": {
                    "type": "object",
                    "properties": {
                        "stage_id": _IDS,
                        "step_id": _IDS,
                        "behavior_id": _IDS,
                        "behavior_iteration": {"type": "integer"},
                    },
                },
                "progress": {
                    "type": "object",
                    "properties": {"stages": _LEVEL, "steps": _LEVEL, "behaviors": _LEVEL},
                },
                "goals": {
                    "type": "object",
                    "description": "In words: `workflow` is the person's own, the others come from the plan.",
                    "properties": dict.fromkeys(("workflow", "stage", "step", "behavior"), _IDS),
                },
            },
        },
        "context": {
            "type": "object",
            "properties": {
                "variables": {
                    "type": "object",
                    "description": "By name. builtin:analysis needs `data_file` (a path that the kernel can read), and "
                    "reads `problem_description`, `data_files` (several paths), `large_bytes` and `join_unasked`.",
                },
                "effects": {"type": "object", "properties": {"current": _TEXTS, "history": _TEXTS}},
                "notebook": _NOTEBOOK,
                "acceptance": _ACCEPTED,
                "FSM": {"type": "object", "properties": {"state": {"type": "string", "enum": [*NOTEBOOK.states]}}},
                "toDoList": {"type": "array"},
            },
        },
    },
}
PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "targetAchieved": {"type": "boolean"},
        "transition": {
            "type": "object",
            "properties": {"continue_behaviors": {"type": "boolean"}, "target_achieved": {"type": "boolean"}},
        },
        "context_update": _UPDATE,
        "context_filter": _OBJECT,
        "acceptance": {**_TEXTS, "description": "To be found true in the kernel before `targetAchieved` is believed."},
        "measurable": {"type": "boolean", "description": "false: the goal names nothing that could be measured."},
        "reason": {"type": "string"},
    },
}
ACTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": sorted(PROTOCOL)},
        "content": {"type": "string"},
        "shot_type": {
            "type": "string",
            "enum": ["action", "dialogue", "observation"],
            "description": "Of `add`: `action` is a code cell, anything else is Markdown.",
        },
        "store_id": {"type": "string"},
        "codecell_id": {"type": "string", "description": "Of `exec`: a store_id, or lastAddedCellId."},
        "title": {"type": "string", "description": "Of `update_title`."},
        "thinking_text": {"type": "string", "description": "Of `is_thinking`."},
        "agent_name": {"type": "string"},
        "auto_debug": {"type": "boolean", "description": "The cell may be repaired and run again if it raises."},
        "repeat": {"type": "string", "enum": ["replay", "once", "skip"]},
    },
    "required": ["action"],
}
_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "object", "properties": {"message": {"type": "string"}}}},
}
_REFUSALS = {
    "400": "not JSON, or no `observation`",
    "403": "the Host header names another machine",
    "404": "no such path",
    "405": "the path exists, by another method",
    "413": "the body is too large",
    "415": "not application/json",
    "422": "the planner cannot answer this observation; trying again does not help",
    "503": "the planner failed; trying again may help",
}


def _answers(content: dict[str, Any]) -> dict[str, Any]:
    refused = {
        code: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for code, text in _REFUSALS.items()
    }
    return {"200": {"description": "the answer", "content": content}, **refused}


def _endpoint(about: str, body: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    asked = {
        "type": "object",
        "required": ["observation"],
        "properties": {"observation": OBSERVATION, "notebook_id": {"type": "string"}, **body},
    }
    given = {"required": True, "content": {"application/json": {"schema": asked}}}
    return {"post": {"summary": about, "requestBody": given, "responses": _answers(content)}}


_FEEDBACK = {
    "behavior_feedback": {
        "type": "object",
        "description": "How the behaviour that has just ended went.",
        "properties": {
            "behavior_id": {"type": "string"},
            "actions_executed": {"type": "integer"},
            "actions_succeeded": {"type": "integer"},
            "sections_added": {"type": "integer"},
            "last_action_result": {"type": "string", "enum": ["success", "error", "skipped"]},
        },
    }
}
_STREAM = {"options": {"type": "object", "properties": {"stream": {"type": "boolean", "default": True}}}}
_LINES = {
    "application/x-ndjson": {
        "schema": {"type": "object", "properties": {"action": ACTION}, "description": "One such object per line."}
    },
    "application/json": {
        "schema": {
            "type": "object",
            "description": "With options.stream false.",
            "properties": {"actions": {"type": "array", "items": ACTION}},
        }
    },
}
_LOOP = """A client keeps a notebook and a kernel, and asks in this order.

1. `/planning` with `location.current` all null and FSM.state `stage_running`: `workflow_update` in the answer is the
   plan.
2. For each step of each stage: `/planning` with `stage_id` and `step_id` set and FSM.state `step_running`.
3. `/generating` with `behavior_iteration` 1 and FSM.state `behavior_running`: do the actions in their order.
   `new_chapter` and `new_section` are headings, `add` makes a cell, `exec` runs one. Append what they make to
   `context.notebook.cells`, with the outputs.
4. `/planning` with FSM.state `behavior_completed` and `behavior_feedback`. `transition.continue_behaviors` true: 3
   again with `behavior_iteration` one more. `targetAchieved` true: check the expressions of `acceptance` in the
   kernel, tell the result as `context.acceptance`, then take the next step, or the next stage.
5. After the last stage: `/planning` with FSM.state `stage_completed`. `targetAchieved` and `reason` are the answer to
   the goal, once `acceptance` holds; `measurable` false says that there is none.
"""
OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Notebook planner", "version": "1", "description": _LOOP},
    "paths": {
        "/planning": _endpoint("Judge where a run stands", _FEEDBACK, {"application/json": {"schema": PLAN}}),
        "/generating": _endpoint("Write the actions of one behaviour", _STREAM, _LINES),
        "/health": {"get": {"summary": "Whether somebody is here", "responses": {"200": {"description": "yes"}}}},
        "/openapi.json": {"get": {"summary": "This document", "responses": {"200": {"description": "it"}}}},
    },
}
