"""The coding lifecycle: seven states, twelve transitions, the ones we added, and what may be done in each state.

What an effect raises cannot be forged from outside: such a row is open only while `context.verdict` names its event,
and only an effect's result can set that. What a person says arrives as `context.asked`.
"""

from msgspec.structs import replace

from detent.core.machine import Action, Machine, Transition, table
from detent.core.question import Question
from detent.core.status import Status

IDLE, PLANNING, CONFIRMING, EXECUTING = "IDLE", "PLANNING", "CONFIRMING", "EXECUTING"
AUTO_FIX, BLOCKED, ARCHIVING = "AUTO_FIX", "BLOCKED", "ARCHIVING"

SEED = table("""
    IDLE        USER_INPUT_REQUIREMENT  PLANNING
    PLANNING    PRD_GENERATED           CONFIRMING
    CONFIRMING  USER_CONFIRM            EXECUTING
    CONFIRMING  USER_CANCEL             IDLE
    PLANNING    USER_CANCEL             IDLE
    EXECUTING   ERROR_DETECTED          AUTO_FIX
    AUTO_FIX    FIX_SUCCESS             EXECUTING
    AUTO_FIX    FIX_FAILED_3X           BLOCKED
    BLOCKED     HUMAN_INTERVENTION      EXECUTING
    BLOCKED     ROLLBACK                IDLE
    EXECUTING   ALL_TASKS_DONE          ARCHIVING
    ARCHIVING   ARCHIVE_COMPLETE        IDLE
""")

ADDED = table("""
    CONFIRMING  USER_MODIFY         PLANNING
    PLANNING    PLAN_FAILED         BLOCKED
    EXECUTING   TASK_VERIFIED       EXECUTING
    AUTO_FIX    FIX_ATTEMPT_FAILED  AUTO_FIX
    EXECUTING   BREAKER_OPEN        BLOCKED
    AUTO_FIX    BREAKER_OPEN        BLOCKED
    PLANNING    FORCE_STOP          BLOCKED
    EXECUTING   FORCE_STOP          BLOCKED
    AUTO_FIX    FORCE_STOP          BLOCKED
    BLOCKED     RETRY_TASK          EXECUTING
    BLOCKED     SKIP_TASK           EXECUTING
    BLOCKED     BUDGET_EXTENDED     EXECUTING
    BLOCKED     ANSWER              EXECUTING
    ARCHIVING   ARCHIVE_FAILED      BLOCKED
""")

# How the engine carries the tables out: an edited plan is read again, a rollback is done before it counts, an attempt
# cut short by a crash is made again, planning and archiving can be tried again, and no failure of ours ends a job.
CARRIED = table("""
    CONFIRMING  PLAN_EDITED          CONFIRMING
    PLANNING    CLARIFIED            PLANNING
    BLOCKED     USER_MODIFY          PLANNING
    BLOCKED     ROLLBACK             BLOCKED
    BLOCKED     ROLLBACK_FAILED      BLOCKED
    BLOCKED     RETRY_ARCHIVE        ARCHIVING
    ARCHIVING   REVIEW_REJECTED      EXECUTING
    ARCHIVING   CI_FAILED            AUTO_FIX
    EXECUTING   ATTEMPT_INTERRUPTED  EXECUTING
    AUTO_FIX    ATTEMPT_INTERRUPTED  AUTO_FIX
    PLANNING    !*                   BLOCKED
    EXECUTING   !*                   BLOCKED
    AUTO_FIX    !*                   BLOCKED
    ARCHIVING   !*                   BLOCKED
    CONFIRMING  !*                   BLOCKED
""")

# What a person may do in each state, by the words of `detent code`.
OPERATIONS: dict[str, tuple[str, ...]] = {
    IDLE: ("start", "history"),
    PLANNING: ("cancel", "pause", "stop"),
    CONFIRMING: ("confirm", "revise", "cancel"),
    EXECUTING: ("pause", "progress", "stop"),
    AUTO_FIX: ("errors", "stop"),
    BLOCKED: ("fix", "rollback", "skip", "retry", "extend", "answer", "revise", "approve", "abandon", "include"),
    ARCHIVING: ("review",),
}

# What an effect concludes; everything else is said by people.
CONCLUDED = frozenset({
    "PRD_GENERATED", "PLAN_FAILED", "ERROR_DETECTED", "FIX_SUCCESS", "FIX_FAILED_3X", "ALL_TASKS_DONE",
    "ARCHIVE_COMPLETE", "TASK_VERIFIED", "FIX_ATTEMPT_FAILED", "BREAKER_OPEN", "ARCHIVE_FAILED",
    "ATTEMPT_INTERRUPTED", "ROLLBACK_FAILED", "CLARIFIED", "REVIEW_REJECTED", "CI_FAILED",
})  # fmt: skip
HAS_PLAN = "context.is_confirmed"
GUARDS = {
    (CONFIRMING, "USER_CONFIRM"): "event.data.plan == context.plan.digest",
    (BLOCKED, "HUMAN_INTERVENTION"): HAS_PLAN,
    (BLOCKED, "RETRY_TASK"): HAS_PLAN,
    (BLOCKED, "SKIP_TASK"): HAS_PLAN,
    (BLOCKED, "BUDGET_EXTENDED"): HAS_PLAN,
    (BLOCKED, "ANSWER"): HAS_PLAN,
    (BLOCKED, "USER_MODIFY"): "not context.is_confirmed",
    (BLOCKED, "RETRY_ARCHIVE"): "context.blocked.reason == 'archive'",
}
OUTCOMES = {"USER_CANCEL": "cancelled", "ARCHIVE_COMPLETE": "archived", "ROLLBACK": "rolled_back"}


def _set_value(name: str, value: object) -> Action:
    return Action(f"set_{name}", "set", {"name": name, "value": value})


def _row(row: Transition) -> Transition:
    """A row of the tables as the engine takes it: guarded, and with what must be remembered on the way."""
    then: list[Action] = []
    when = GUARDS.get((row.source, row.on), "")
    if row.error:
        then = [_set_value("blocked", {"reason": "error", "detail": "{{ error.message }}", "type": "{{ error.type }}"})]
    elif row.on in CONCLUDED:
        when = f"context.verdict == '{row.on}'"
    elif row.on == "ROLLBACK":
        when = "context.verdict == 'ROLLBACK'" if row.target == IDLE else ""
        then = [] if row.target == IDLE else [_set_value("asked", "{{ event }}")]
    else:
        then = [_set_value("asked", "{{ event }}"), _set_value("verdict", "")]
    if row.on == "FORCE_STOP":
        then.append(_set_value("blocked", {"reason": "stopped", "detail": "{{ event.data.reason }}"}))
    if row.on == "USER_CONFIRM":
        then.append(_set_value("is_confirmed", True))
    if row.target == IDLE:
        then.append(_set_value("outcome", OUTCOMES[row.on]))
    return replace(row, when=when, then=tuple(then))


JOB = {"job": "{{ context }}", "run": "{{ run.id }}", "state": "{{ run.state }}"}
THINK = {"messages": "{{ context.messages }}", "model": "{{ context.settings.planner.model }}"}
ATTEMPT = (
    Action("restore", "code.rollback", JOB, when="context.restore"),
    Action("checkpoint", "code.checkpoint", JOB, when="context.step.go == 'work' or context.step.go == 'beside'"),
    Action(
        "work",
        "code.work",
        {
            "root": "{{ context.root }}",
            "task": "{{ context.step.task }}",
            "attempt": "{{ context.step.attempt }}",
            "worker": "{{ context.settings.worker }}",
            "job": "{{ context }}",
            "run": "{{ run.id }}",
        },
        when="context.step.go == 'work'",
        key="{{ run.id }}/{{ context.step.key }}",
        scope="run",
    ),
    Action("verify", "code.verify", JOB, when="context.step.go == 'work' or context.step.go == 'verify'"),
)
BESIDE = Action(
    "beside",
    "code.beside",
    JOB,
    when="context.step.go == 'beside'",
    key="{{ run.id }}/{{ context.step.key }}",
    scope="run",
)

MAY_LAND = "(not context.needs_review or context.reviewed)"
IS_PUSHED = "context.publish.pushed and context.publish.pushed == context.final.tree"
IS_CHECKED = "context.publish.checked and context.publish.checked == context.final.tree"
MAY_ARCHIVE = f"{MAY_LAND} and (not context.publish or ({IS_CHECKED}))"


def _publish(name: str, effect: str, question: str, when: str, key: str) -> Action:
    """A deed that the world sees: it is asked about, and its key is taken for good."""
    given = {**JOB, "branch": "{{ context.publish.branch }}", "to": "{{ context.publish.repo }}"}
    branch = "{{ context.publish.repo }}/{{ context.publish.branch }}"
    return Action(name, effect, given, ask=Question(question), when=f"context.publish and {when}", key=f"{branch}{key}")


PUBLISH = (
    _publish(
        "push",
        "code.push",
        "Push the branch {{ context.publish.branch }} to {{ context.publish.repo }}?",
        f"{MAY_LAND} and not ({IS_PUSHED})",
        "@{{ context.final.tree }}",
    ),
    _publish(
        "open",
        "code.open_pull",
        "Open a draft pull request of {{ context.publish.branch }} in {{ context.publish.repo }}?",
        f"{IS_PUSHED} and not context.publish.pull",
        " pull request",
    ),
    Action("ci", "code.ci", JOB, when=f"context.publish.pull and {IS_PUSHED}"),
)

CODING = Machine(
    name="coding",
    initial=IDLE,
    # The row that is open only after the deed comes before the one that leads to it.
    transitions=tuple(_row(row) for row in (*SEED, *ADDED, *CARRIED)),
    work={
        PLANNING: (
            Action("brief", "code.brief", JOB),
            Action("think", "llm", THINK, when="context.messages", kind="idempotent", timeout_s=600.0),
            Action("plan", "code.plan", {**JOB, "said": "{{ result.think }}"}),
        ),
        CONFIRMING: (Action("present", "code.present", JOB),),
        EXECUTING: (
            Action("baseline", "code.baseline", JOB, when="not context.baseline"),
            Action("next", "code.next", JOB, when="context.verdict != 'BREAKER_OPEN'"),
            *ATTEMPT,
            BESIDE,
        ),
        AUTO_FIX: (Action("repair", "code.repair", JOB), *ATTEMPT),
        BLOCKED: (
            Action("undo", "code.undo", JOB, when="context.asked.name == 'ROLLBACK'"),
            Action("report", "code.report", JOB, when="context.verdict != 'ROLLBACK'"),
        ),
        ARCHIVING: (
            Action("review", "code.review", JOB, when="context.needs_review"),
            *PUBLISH,
            Action("archive", "code.archive", JOB, when=MAY_ARCHIVE),
        ),
    },
    ends={IDLE: Status.COMPLETED},
    output={"outcome": "{{ context.outcome }}", "archive": "{{ context.archive }}"},
    title="Coding lifecycle",
    version="1",
)

MACHINES = (CODING,)
