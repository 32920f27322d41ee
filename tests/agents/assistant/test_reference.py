"""What clients of the execution protocol read, field by field and word by word."""

import json
from pathlib import Path
from typing import Any

import pytest

from detent.agents.assistant.cognitive_object import STATES, TARGETS, ConcernHistory
from detent.agents.assistant.execution_ledger import Execution
from detent.agents.assistant.execution_wording import word_action, word_change, word_consequence
from detent.agents.assistant.intent import by_rules
from detent.agents.assistant.question_form import form_of
from detent.agents.assistant.view import consequence, snapshot, timeline, topology
from detent.core import Status
from tests.agents.assistant.stage import INVITE, Post, asking, speaking

# Words of the machinery that no view for people may have.
INNER = ("execution_id", "action_type", "contract", "snapshot", "node", "status", "idempotency", "trigger", "actor")


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(one) for one in value.values())) if value else set()
    return set().union(*(keys_of(one) for one in value)) if isinstance(value, list) else set()


async def test_a_timeline_counts_and_people_read_truth_values(tmp_path: Path) -> None:
    post = Post()
    async with speaking(tmp_path, post.effect, says=[asking("email.send", to="bob"), "done"]) as scene:
        run = await scene.say("I prefer tea")
        waits = timeline("talk", [scene.ledger(run)], run.at)
        assert (waits["total_contracts"], waits["terminal_contracts"], waits["active_contracts"]) == (2, 0, 2)
        assert (waits["has_suspended"], waits["has_irreversible_completed"], waits["ended_at"]) == (True, False, None)
        run = await scene.answer(run, approved=True)
        ledger = scene.ledger(run)
        tool, _confirmation = ledger.executions.values()
        done = timeline("talk", [ledger], run.at)
        assert (done["terminal_contracts"], done["active_contracts"], done["has_suspended"]) == (2, 0, False)
        assert done["has_irreversible_completed"] is True
        assert done["started_at"] == tool.created_at
        assert done["ended_at"] == tool.moves[-1].at
        rows = [row for row in done["transitions"] if row["execution_id"] == tool.id]
        assert [(row["sequence_number"], row["is_terminal_transition"]) for row in rows] == [(0, False), (1, True)]
        assert snapshot(tool, run.at)["timeout_seconds"] == 5.0
        view = consequence(tool, ledger)
        assert (view["execution_id"], view["action_type"]) == (tool.id, "tool_call")
        assert isinstance(view["total_duration_ms"], int)
        people = consequence(tool, ledger, human=True)
        assert people == {"行动": "发送email", "后果": "已完成（不可撤销）", "是否不可逆": True, "是否经过确认": True,
                          "是否仍在进行": False, "结果": "邮件已发送", "错误": None,
                          "耗时毫秒": view["total_duration_ms"]}  # fmt: skip
        shown = snapshot(tool, run.at, human=True)
        assert shown == {"行动": "发送email", "状态": "已完成", "是否需要关注": False, "是否已结束": True,
                         "是否不可逆": True, "结果": "邮件已发送", "错误": None}  # fmt: skip
        told = timeline("talk", [ledger], run.at, human=True)
        assert (told["总数"], told["已结束"], told["进行中"], told["含等待"], told["含不可逆操作"]) == (
            2,
            2,
            0,
            False,
            True,
        )
        for name in keys_of([people, shown, told]):
            assert not any(word in name for word in INNER)


def test_an_empty_session_is_a_timeline_of_zeros() -> None:
    told = timeline("nobody", [], 1.0)
    assert (told["contracts"], told["transitions"], told["total_contracts"]) == ([], [], 0)
    assert (told["started_at"], told["ended_at"], told["has_suspended"]) == (None, None, False)


def test_the_topology_has_every_pair_of_statuses() -> None:
    law = topology()
    assert {node["status"] for node in law["nodes"]} == {status.value for status in Status}
    assert set(law["nodes"][0]) == {"status", "is_terminal", "is_initial", "is_stable", "is_resumable"}
    assert set(law["edges"][0]) == {"from_status", "to_status", "trigger"}
    allowed = {(row["from_status"], row["to_status"]) for row in law["edges"]}
    forbidden = {(row["from_status"], row["to_status"]) for row in law["forbidden_transitions"]}
    assert all(row["reason"] for row in law["forbidden_transitions"])
    assert allowed | forbidden == {(a.value, b.value) for a in Status for b in Status if a is not b}
    assert not allowed & forbidden
    assert {("completed", "running"), ("waiting", "completed")} <= forbidden
    assert (law["initial_status"], law["resumable_statuses"]) == ("pending", ["waiting"])
    assert set(law["terminal_statuses"]) == {"completed", "failed", "rejected", "cancelled"}


@pytest.mark.parametrize(("detail", "type", "summary"), [
    ({"service": "email", "method": "send"}, "tool_call", "email.send"),
    ({"type": "form", "title": "A trip"}, "ecs_request", "A trip"),
    ({"type": "confirmation"}, "ecs_request", "ecs:confirmation"),
    ({}, "ecs_request", "ecs_request"),
    ({}, "other", "other"),
])  # fmt: skip
def test_an_action_is_summed_up(detail: dict[str, Any], type: str, summary: str) -> None:
    assert Execution("r:1", type, detail, "c", 0.0).summary == summary


def test_words_for_people() -> None:
    assert [word_action(one) for one in ("email.send", "data.read", "file.delete", "user.create", "x.custom")] == [
        "发送email", "读取data", "删除file", "创建user", "customx",
    ]  # fmt: skip
    assert [word_action(f"ecs:{one}") for one in ("form", "confirm", "select", "other")] == [
        "填写表单", "确认操作", "选择选项", "执行 other",
    ]  # fmt: skip
    assert word_action("tool_call") == "tool_call"
    assert word_action("Is it 3.5 m long? Yes.") == "Is it 3.5 m long? Yes."
    labels = ("SUCCESS", "FAILED", "REJECTED", "CANCELLED", "WAITING", "IN_PROGRESS", "NOT_STARTED")
    assert [word_consequence(one, has_side_effects=False) for one in labels] == [
        "已完成", "出了问题", "已拒绝", "已停止", "等待中", "进行中", "尚未开始",
    ]  # fmt: skip
    words = [word_change("a.b", Status.PENDING, status, has_side_effects=False)["新状态"] for status in Status]
    assert words == ["准备中", "进行中", "需要关注", "已完成", "出了问题", "已拒绝", "已停止"]


async def test_questions_are_put_in_the_users_language(tmp_path: Path) -> None:
    async with speaking(tmp_path, Post().effect, says=[asking("email.send", to="bob")]) as scene:
        run = await scene.say(INVITE)
        form = form_of(list(scene.ledger(run).executions.values())[1])
        assert form["title"] == "可以执行 email.send 吗？此操作不可撤销。"
        assert [action["label"] for action in form["actions"]] == ["确认", "修改", "取消"]
    async with speaking(tmp_path / "en", Post().effect, says=[asking("email.send", to="ann")]) as scene:
        run = await scene.say("I prefer mail")
        form = form_of(list(scene.ledger(run).executions.values())[1])
        assert (form["title"], form["actions"][0]["label"]) == ("May email.send do this? It cannot be undone.", "OK")


INTENTS: dict[str | None, str] = {  # words of the rules, several between bars
    "preference": (
        "我喜欢Python|我偏好Mac|我爱喝茶|我更喜欢茶|我比较喜欢茶|我最喜欢火锅|我不喜欢Java|我讨厌下雨|"
        "我不爱吃辣|我倾向于用Mac|我选择安静的房间|我宁愿走路|我偏好使用Mac|我最喜欢吃火锅|我也喜欢看书|我一直喜欢足球|"
        "I don't like mushrooms"
    ),
    "fact": (
        "我叫小明|我是前端开发|我的名字是小明|我在北京工作|我在上海上班|我住在上海|我来自四川|我今年25岁|"
        "我的职业是医生|我做设计的|我会三种语言|我学过钢琴|我毕业于清华|"
        "我姓王|我家在北京|我有两个孩子|I'm from Spain|I am a teacher"
    ),
    "pattern": (
        "我每天6点起床|我通常用Chrome|我习惯晚上写代码|我一般坐地铁|我经常跑步|我总是迟到|我每周游泳|"
        "我每个月存钱|我平时看书|我的习惯是早睡|我每天早上6点起床|我通常用Chrome浏览器|我周末一般在家|我每晚都读书"
    ),
    "opinion": (
        "我认为AI重要|我觉得不错|我相信未来|我发现这样更快|在我看来不错|我的观点是可以|我认同你|"
        "我不认同他|我的看法是不行|依我之见可以|我个人认为对|我的理解是这样|我认为AI很重要|"
        "我觉得这个方案不错|我相信未来会更好|在我看来这是最佳选择|我不认为这是对的"
    ),
    "plan_reminder": (
        "提醒我明天开会|别忘了下周交报告|记得明天要交|明天下午要面试|后天上午会下雨|下周一要出差|"
        "下个月要搬家|下月要搬家|3点要去面试|3点我们开会|15号要交房租|15日会到|周三要开会|"
        "每天8点提醒我吃药|每周五提醒一下|定时关机|预约牙医|安排一个会议|开会是什么时间|每天早上提醒吃药|"
        "明天3点要去面试|提醒我明天要买Python的书|十点要出门|下午要去接孩子"
    ),
    "proactive_inquiry": (
        "你好|你好啊|你好呀|嗨|嗨呀|hi|hi!|hello|hello!|hey|hey!|早上好|早好|晚上好|下午好|在吗|在吗?|"
        "在吗？|有人吗|有人吗？|早|大家好|嗨，你好|您好，有人吗？|Hi there|good morning everyone!"
    ),
    "emotion_driven": (
        "心情很好|很开心今天完成了项目|很高兴见到你|太棒了!|好兴奋|真不错|感觉很好|超级开心|很难过|"
        "心情不好|很沮丧|很烦|好累啊|压力很大|很焦虑|很担心|不开心|郁闷|我有点儿累|"
        "I am very anxious|I feel lonely|I'm a bit worried"
    ),
    "memory_gap": ("推荐一本书|推荐几部电影|建议我看什么|帮我推荐个餐厅|有什么电影推荐|想找一本书|求推荐"),
    "topic_deepening": (
        "我对天文感兴趣|我想了解量子更多|最近在学吉他|最近在看一本小说|最近在玩一个游戏|我正在学吉他|"
        "我正在研究机器学习|我迷上了滑雪|我最近迷上了摄影|我想了解更多"
    ),
    "question_to_form": (
        "想去日本旅游|想去日本旅行|打算明年买车|打算去北京|计划买房|计划去西藏|想买一台电脑|想换手机|"
        "考虑买车|考虑换工作|我想去日本旅游|我想买一台电脑"
    ),
    "visual_display": (
        "比较Java和Python|对比Java和Python|对比一下|比较一下|Java和Go有什么区别|Java和Go哪个好|Java vs Go|"
        "Java vs. Go|Java versus Go|Java跟Go比|Java与Go对比|列出所有命令|列一下|列举一些|汇总一下|"
        "整理一份清单|整理一个列表|给我一个购物列表|给我一个购物清单|常用的git命令|常用的快捷键|"
        "用表格展示|以表格列出|表格形式|做个表|画个表|整理成表|流程图|架构图|示意图|画一个时序图|"
        "展示系统结构|画个登录流程|用图来展示|对比这两个方案|红茶与绿茶的区别|有哪些不同|React 跟 Vue 比"
    ),
    "mcp_tool_call": (
        "用天气工具查一下|使用翻译工具帮我翻译|调用计算工具|运行搜索工具找一下|执行备份工具|用翻译服务|"
        "使用天气服务查询|调用文件服务|让天气服务查一下|使用邮件服务"
    ),
    None: (
        "Python怎么安装？|什么是机器学习？|帮我解释一下这段代码|好的|谢谢|明白了|收到|早餐吃什么好|"
        "你好，请问北京的人口是多少|hey, what is 2+2|他有两个孩子|这个比较贵|有点意思|I'm going to translate this"
    ),
}


@pytest.mark.parametrize("intent", list(INTENTS))
def test_intents_by_rule(intent: str | None) -> None:
    found = {text: by_rules(text) for text in INTENTS[intent].split("|")}
    assert {text: got and got["intent_type"] for text, got in found.items()} == dict.fromkeys(found, intent)


def test_a_service_is_meant_by_its_keywords() -> None:
    found = by_rules("明天气温怎么样", [{"name": "weather.get"}], {"weather": ["气温"]})
    assert found is not None
    assert (found["mcp_service_name"], found["category"]) == ("weather", "mcp")


def test_a_cognitive_object_has_the_moves_of_the_table_and_no_others() -> None:
    assert len(TARGETS) == 15
    assert {source for source, _trigger in TARGETS} == set(STATES)
    assert {(source, trigger) for source, trigger in TARGETS if trigger == "archive"} == {
        (state, "archive") for state in STATES if state != "archived"
    }
    moves = [{"trigger": trigger, "timestamp": float(at), "actor": "kim", "reason": ""} for at, trigger in enumerate(
        ("clarify", "unblock", "wait", "archive", "achieve", "reactivate", "achieve"))]  # fmt: skip
    history = ConcernHistory([], moves)
    assert history.state == "stable"
    assert [move["trigger"] for move in history.transitions] == ["clarify", "wait", "archive", "reactivate", "achieve"]
    assert json.dumps(history.transitions)
