"""The protocol's two endpoints as an OpenAPI document: enough to write a client from it alone."""

from typing import Any

from detent.agents.notebook.action import PROTOCOL

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
                "goals": _OBJECT,
            },
        },
        "context": {
            "type": "object",
            "properties": {
                "variables": {
                    "type": "object",
                    "description": "By name; builtin:analysis needs `data_file` and reads `problem_description`.",
                },
                "effects": {"type": "object", "properties": {"current": _TEXTS, "history": _TEXTS}},
                "notebook": _OBJECT,
                "FSM": {"type": "object", "properties": {"state": {"type": "string"}}},
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
        "context_update": _OBJECT,
        "context_filter": _OBJECT,
        "acceptance": _TEXTS,
        "reason": {"type": "string"},
    },
}
ACTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": sorted(PROTOCOL)},
        "content": {"type": "string"},
        "shot_type": {"type": "string", "enum": ["action", "dialogue", "observation"]},
        "store_id": {"type": "string"},
        "codecell_id": {"type": "string", "description": "A store_id, or lastAddedCellId."},
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
OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Notebook planner", "version": "1"},
    "paths": {
        "/planning": _endpoint("Judge where a run stands", _FEEDBACK, {"application/json": {"schema": PLAN}}),
        "/generating": _endpoint("Write the actions of one behaviour", _STREAM, _LINES),
        "/health": {"get": {"summary": "Whether somebody is here", "responses": {"200": {"description": "yes"}}}},
        "/openapi.json": {"get": {"summary": "This document", "responses": {"200": {"description": "it"}}}},
    },
}
