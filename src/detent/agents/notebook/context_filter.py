"""`context_filter`: what of an observation the next generating call gets to see, and how much of it.

A name that is asked for and not there never vanishes silently: the effects say so.
"""

import re
from collections.abc import Mapping
from typing import Any

from detent.agents.notebook.observation import LEVELS
from detent.agents.notebook.planner_regex import Matches

STRATEGY = re.compile(r"shape_only|describe_only|head_only|last_[1-9][0-9]{0,3}_only")


def strategies(wanted: dict[str, Any] | None) -> dict[str, str]:
    """The summaries a filter asks the kernel for, as the probe understands them."""
    asked = _mapping((wanted or {}).get("variables_to_summarize"))
    return {name: strategy for name, strategy in asked.items() if STRATEGY.fullmatch(str(strategy))}


def patterns_of(wanted: dict[str, Any]) -> list[str]:
    """The regular expressions by which a filter chooses effects."""
    patterns = _mapping(_mapping(wanted.get("effects_config")).get("patterns"))
    return [text for kind in ("include", "exclude") for text in _texts(patterns.get(kind))]


def apply_focus(
    observation: dict[str, Any], wanted: dict[str, Any], details: Mapping[str, Any], matches: Matches
) -> dict[str, Any]:
    """The observation with only what the filter lets through.

    `details` are the summaries the kernel gave, `matches` says which effects the filter's patterns are found in.
    """
    location, context = observation["location"], observation["context"]
    variables, warnings = _variables(context["variables"], wanted, details)
    effects = _effects(context["effects"], _mapping(wanted.get("effects_config")), matches, warnings)
    asked = wanted.get("focus_to_include")
    chosen = [level for level in LEVELS if level in asked] if isinstance(asked, list) else []
    level = "behaviors" if location["current"]["behavior_id"] else "steps"  # the current level is always there
    progress = {
        name: {key: location["progress"][name][key] for key in ("focus", "current_outputs")}
        for name in LEVELS
        if name in (chosen or ["behaviors"]) or name == level
    }
    tracked = _mapping(wanted.get("outputs_tracking"))
    shown: dict[str, Any] = {
        "location": {"current": location["current"], "progress": progress},
        "context": {"variables": variables, "effects": effects},
    }
    if tracked:
        shown["context"]["outputs_tracking"] = tracked
    return shown


def _variables(
    known: dict[str, Any], wanted: dict[str, Any], details: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    warnings: list[str] = []
    summarize = _mapping(wanted.get("variables_to_summarize"))
    include = wanted.get("variables_to_include")
    for name in include if isinstance(include, list) else []:
        if name in known:
            found[name] = known[name]
            continue
        strategy = summarize.get(name)
        fallback = f"falling back to '{strategy}'" if strategy else "skipped"
        warnings.append(f"⚠️ WARN: Variable '{name}' requested but not found; {fallback}")
    for name, strategy in summarize.items():
        if name in found:
            continue
        if not STRATEGY.fullmatch(str(strategy)):
            warnings.append(f"⚠️ WARN: Variable '{name}': '{strategy}' is not a way to summarize; its one line is sent")
            found[name] = known.get(name, f"<{strategy}: not available>")
        elif details.get(name) is not None:
            found[name] = details[name]
        else:
            if name not in known and not any(f"'{name}'" in text for text in warnings):
                warnings.append(f"⚠️ WARN: Variable '{name}' requested but not found; nothing to summarize")
            found[name] = f"<{strategy}: not available>"
    return found, warnings


def _effects(
    effects: dict[str, list[str]], config: dict[str, Any], matches: Matches, warnings: list[str]
) -> dict[str, list[str]]:
    current = _last(effects["current"], config.get("current_limit")) if config.get("include_current", True) else []
    history: list[str] = []
    if config.get("include_history", False):
        limit = config.get("history_limit", 0)
        history = _last(effects["history"], limit) if limit else []
    patterns = _mapping(config.get("patterns"))
    for kind, keeps in (("include", True), ("exclude", False)):
        found = _find_texts(_texts(patterns.get(kind)), matches, warnings)
        if found is not None:
            current = [text for text in current if (text in found) is keeps]
            history = [text for text in history if (text in found) is keeps]
    return {"current": [*current, *warnings], "history": history}


def _last(texts: list[str], limit: Any) -> list[str]:
    """The most recent ones."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        return [*texts]
    return texts[-limit:] if limit > 0 else []


def _find_texts(patterns: list[str], matches: Matches, warnings: list[str]) -> set[str] | None:
    """The texts in which one of the patterns is found; None if there is no pattern to go by."""
    found: set[str] = set()
    fit = 0
    for pattern in patterns:
        texts = matches.get(pattern, "it was not tried")
        if isinstance(texts, str):
            warnings.append(f"⚠️ WARN: the pattern {pattern!r} of effects_config is left out: {texts}")
        else:
            found, fit = found | texts, fit + 1
    return found if fit else None


def _texts(given: Any) -> list[str]:
    return [str(text) for text in given] if isinstance(given, list) else []


def _mapping(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}
