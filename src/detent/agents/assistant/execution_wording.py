"""The words in which executions are shown to people, as clients of the execution protocol know them.

The keys are Chinese, truth values are truth values, and no word of the machinery is in them.
"""

from collections.abc import Mapping
from typing import Any

from detent.core.status import Status

STATUS_WORDS = {
    Status.PENDING: "准备中", Status.RUNNING: "进行中", Status.WAITING: "需要关注", Status.COMPLETED: "已完成",
    Status.FAILED: "出了问题", Status.REJECTED: "已拒绝", Status.CANCELLED: "已停止",
}  # fmt: skip
CONSEQUENCE_WORDS = {
    "SUCCESS": "已完成", "FAILED": "出了问题", "REJECTED": "已拒绝", "CANCELLED": "已停止", "WAITING": "等待中",
    "IN_PROGRESS": "进行中", "NOT_STARTED": "尚未开始",
}  # fmt: skip
DONE_FOR_GOOD = "已完成（不可撤销）"
VERBS = {
    "send": "发送", "read": "读取", "write": "写入", "search": "搜索", "delete": "删除", "update": "更新",
    "create": "创建", "get": "获取", "fetch": "获取", "list": "列出",
}  # fmt: skip
FORMS = {"form": "填写表单", "confirm": "确认操作", "select": "选择选项"}


def word_action(summary: str) -> str:
    """An action's summary in words: the verb in front of the service, or what is to be done with a form."""
    kind, colon, type = summary.partition(":")
    if colon and kind == "ecs" and " " not in summary:
        return FORMS.get(type) or f"执行 {type}"
    service, dot, method = summary.partition(".")
    is_call = bool(dot and service and method) and all(part.isprintable() and " " not in part for part in summary)
    return f"{VERBS.get(method, method)}{service}" if is_call else summary


def word_consequence(label: str, *, has_side_effects: bool) -> str:
    """What became of an action, in words."""
    if label == "SUCCESS" and has_side_effects:
        return DONE_FOR_GOOD
    return CONSEQUENCE_WORDS.get(label, label)


def word_snapshot(shown: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot for people."""
    status = Status(shown["current_status"])
    return {
        "行动": word_action(shown["action_summary"]),
        "状态": STATUS_WORDS[status],
        "是否需要关注": status is Status.WAITING,
        "是否已结束": shown["is_terminal"],
        "是否不可逆": shown["has_side_effects"],
        "结果": shown["result"],
        "错误": shown["error_message"],
    }


def word_consequence_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """A consequence for people."""
    return {
        "行动": word_action(view["action_summary"]),
        "后果": word_consequence(view["consequence_label"], has_side_effects=view["has_side_effects"]),
        "是否不可逆": view["has_side_effects"],
        "是否经过确认": view["was_suspended"],
        "是否仍在进行": view["is_still_pending"],
        "结果": view["result"],
        "错误": view["error_message"],
        "耗时毫秒": view["total_duration_ms"],
    }


def word_timeline(told: Mapping[str, Any]) -> dict[str, Any]:
    """A timeline for people."""
    kept = ("行动", "状态", "是否已结束", "是否不可逆", "结果", "错误")
    rows = [word_snapshot(one) for one in told["contracts"]]
    return {
        "行动列表": [{name: row[name] for name in kept} for row in rows],
        "总数": told["total_contracts"],
        "已结束": told["terminal_contracts"],
        "进行中": told["active_contracts"],
        "含等待": told["has_suspended"],
        "含不可逆操作": told["has_irreversible_completed"],
    }


def word_change(summary: str, source: Status, target: Status, *, has_side_effects: bool) -> dict[str, Any]:
    """One move for people, as it is told while it happens."""
    return {
        "行动": word_action(summary),
        "原状态": STATUS_WORDS[source],
        "新状态": STATUS_WORDS[target],
        "是否已结束": target.is_terminal,
        "是否需要关注": target is Status.WAITING,
        "是否不可逆": has_side_effects,
    }
