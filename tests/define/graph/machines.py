"""Machines to draw: small and large, plain and awkward."""

from detent.agents.coding.machine import SEED
from detent.agents.notebook.machine import NOTEBOOK, TABLE
from detent.core import (
    CONTRACT,
    Action,
    Await,
    Branch,
    Limits,
    Machine,
    Question,
    Status,
    Transition,
    Wait,
    table,
)

DOOR = Machine(
    name="door",
    initial="closed",
    transitions=table("""
        closed  OPEN   open
        open    CLOSE  closed
    """),
)

MAIL = Machine(
    name="mail",
    title="Send a mail when somebody says so",
    initial="writing",
    transitions=table("""
        writing  SEND               sending
        writing  DISCARD            discarded
        sending  -                  sent
        sending  !approval_rejected writing
        sending  !tool_failure      failed
        sending  !timeout           failed
    """),
    work={"sending": (Action(id="send", effect="mail.send", ask=Question(text="Send it?")),)},
    ends={"sent": Status.COMPLETED, "discarded": Status.CANCELLED, "failed": Status.FAILED},
)

RELEASE = Machine(
    name="release",
    initial="start",
    transitions=(
        Transition("start", "build"),
        Transition("build", "checks", when="{{ result.compile.success }}"),
        Transition("build", "build", when="{{ attempt < 3 }}", even_failed=True, is_retry=True),
        Transition("build", "broken", even_failed=True),
        Transition("checks", "review"),
        Transition("checks", "broken", error="branch_failed"),
        Transition("review", "soak"),
        Transition("review", "refused", error="approval_rejected"),
        Transition("soak", "live", on="HEALTHY"),
        Transition("soak", "rollback", on="ALARM", when="{{ event.data.level > variables.threshold_of_pain }}"),
        Transition("soak", "rollback", error="timeout.event"),
        Transition("rollback", "broken"),
        Transition("*", "aborted", on="ABORT"),
        Transition("*", "broken", error="*"),
    ),
    work={
        "build": (Action(id="compile", effect="shell", input={"command": ["make"]}),),
        "checks": (
            Action(
                id="all",
                effect="branches",
                branches=(
                    Branch("unit", (Action(id="unit", effect="shell"),)),
                    Branch("lint", (Action(id="lint", effect="shell"),)),
                    Branch("scan", (Action(id="scan", effect="http.get"), Action(id="note", effect="files.write"))),
                ),
            ),
        ),
        "review": (Action(id="deploy", effect="deploy.push", ask=Question(text="Deploy?", quorum=2)),),
        "soak": (
            Action(id="watch", effect="wait", wait=Wait(events=(Await("HEALTHY"), Await("ALARM")), timeout_s=86400)),
        ),
        "rollback": (Action(id="undo", effect="deploy.undo"),),
    },
    ends={
        "live": Status.COMPLETED,
        "broken": Status.FAILED,
        "refused": Status.REJECTED,
        "aborted": Status.CANCELLED,
    },
    limits=Limits(max_transitions=100),
)

CHINESE = Machine(
    name="报销",
    title="费用报销审批",
    initial="填写申请",
    transitions=table("""
        填写申请  提交      主管审批
        主管审批  -         财务复核
        主管审批  !approval_rejected  填写申请
        财务复核  通过      付款
        财务复核  退回修改  填写申请
        付款      -         已完成
        付款      !tool_failure  等待人工处理
        等待人工处理  重试  付款
        等待人工处理  放弃  已取消
    """),
    work={
        "主管审批": (Action(id="批准", effect="approve.expense", ask=Question(text="同意吗？")),),
        "付款": (Action(id="pay", effect="bank.pay"),),
    },
    ends={"已完成": Status.COMPLETED, "已取消": Status.CANCELLED},
)


def coding() -> Machine:
    """The seven-state table of the coding lifecycle, without the rows we added."""
    return Machine(name="coding", initial="IDLE", transitions=SEED)


def notebook() -> Machine:
    """The fourteen states and forty-five rows of the notebook protocol, without its work."""
    return Machine(name="notebook", initial="idle", transitions=TABLE, ends=NOTEBOOK.ends)


def chain(count: int = 40) -> Machine:
    """A long way with detours, short cuts, steps back and a common failure."""
    rows = []
    for at in range(count - 1):
        rows.append(Transition(f"step_{at}", f"step_{at + 1}", on="NEXT"))
        if at % 5 == 2 and at + 3 < count:
            rows.append(Transition(f"step_{at}", f"step_{at + 3}", on="SKIP"))
        if at % 7 == 6:
            rows.append(Transition(f"step_{at}", f"step_{at - 4}", on="BACK"))
        if at % 4 == 1:
            rows.append(Transition(f"step_{at}", "failed", error="tool_failure"))
        if at % 9 == 4:
            rows.append(Transition(f"step_{at}", f"side_{at}", on="DETOUR"))
            rows.append(Transition(f"side_{at}", f"step_{at + 1}"))
    work: dict[str, tuple[Action, ...]] = {
        f"side_{at}": (Action(id="look", effect="shell"),) for at in range(count - 1) if at % 9 == 4
    }
    ends = {f"step_{count - 1}": Status.COMPLETED, "failed": Status.FAILED}
    return Machine(name="chain", initial="step_0", transitions=tuple(rows), work=work, ends=ends)


def web(count: int = 200) -> Machine:
    """Many states, each leading to a few others near and far."""
    rows = []
    for at in range(count):
        for event, target in (("A", at * 2 + 1), ("B", at * 2 + 2), ("C", at * 7 % count)):
            if target < count:
                rows.append(Transition(f"n{at}", f"n{target}", on=event))
    return Machine(name="web", initial="n0", transitions=tuple(rows))


EVERY = {
    "door": DOOR,
    "contract": CONTRACT,
    "mail": MAIL,
    "release": RELEASE,
    "chinese": CHINESE,
    "coding": coding(),
    "notebook": notebook(),
    "chain": chain(),
    "web": web(),
}
