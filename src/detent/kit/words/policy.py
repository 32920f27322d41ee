"""The sentences about policies, the audit and messages, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "{path}, {count} rules": "{path}，{count} 条规则",
    "The policy file; by default $DETENT_POLICY, or detent.policy.yaml beside the home.": (
        "策略文件；默认是 $DETENT_POLICY，或 home 旁边的 detent.policy.yaml。"
    ),
    "ok: a policy with one rule": "正确：策略，1 条规则",
    "ok: a policy with {count} rules": "正确：策略，{count} 条规则",
    "{name}: the policy's rule `{rule}` says {decision}": "{name}：策略规则 `{rule}` 的决定是 {decision}",
    "rule": "规则",
    "told {to}: {message}": "已通知 {to}：{message}",
    "to be told to {to}: {message} ({why})": "待通知 {to}：{message}（{why}）",
    "not yet delivered": "尚未送达",
    "message to {to}: {message}": "给 {to} 的消息：{message}",
    "Show who allowed what, and what came of it.": "显示谁批准了什么，以及结果如何。",
    "Test a policy on past calls, or propose rules from past answers.": (
        "用过去的调用检验策略，或根据过去的回答提出规则。"
    ),
    "Only from this time on: 30d for 30 days ago, or a date like 2026-01-31.": (
        "从何时起：30d 表示多久以前，或像 2026-01-31 的日期。"
    ),
    "Only up to this time, written like --since.": "到何时为止，写法同 --since。",
    "Only decisions by this person, or by `policy:RULE`.": "只看这个人的决定，或 `policy:规则` 的决定。",
    "Only calls of these effects, like `mail.*`.": "只看这些效果的调用，例如 `mail.*`。",
    "Only decisions of this run.": "只看这次运行的决定。",
    "Write CSV that a spreadsheet opens safely.": "输出电子表格可以安全打开的 CSV。",
    "--csv and --json do not go together": "--csv 与 --json 不能同时使用",
    "time": "时间",
    "by whom": "由谁",
    "answer": "回答",
    "call": "调用",
    "outcome": "结果",
    "no decisions": "没有决定",
    "done": "已完成",
    "refused": "被拒绝",
    "earlier result used": "沿用了先前的结果",
    "nobody knows": "无人知道",
    "not yet": "尚无",
    "Replay past calls through a policy file and show what it would have decided.": (
        "用策略文件重放过去的调用，显示它会怎样决定。"
    ),
    "Exit 1 if it would allow a call that a person refused.": "如果它会允许有人拒绝过的调用，则以 1 退出。",
    "The maximum number of calls to list.": "最多列出多少个调用。",
    "calls: {calls}, of runs: {runs}": "调用：{calls}，来自运行：{runs}",
    "allowed although a person refused or changed it: {count}": "有人拒绝或改动过、却会被允许的：{count}",
    "rule in this file": "此文件中的规则",
    "rule at the time": "当时的规则",
    "otherwise decided differently: {count}": "其他决定不同的：{count}",
    "nothing else would be decided differently": "其余的决定都不变",
    "rule `{rule}` reads {reads}, which the journal does not have: its result is a guess": (
        "规则 `{rule}` 要读取 {reads}，日志里没有：它的结果只是推测"
    ),
    "… and {count} older ones; --limit lists more": "…… 以及 {count} 个更早的；--limit 可列出更多",
    "allow": "允许",
    "ask": "询问",
    "deny": "拒绝",
    "approved": "已同意",
    "edited": "已改动",
    "(no rule)": "（无规则）",
    "Propose rules for what people have approved again and again, as text to adopt.": (
        "为人们一再同意的调用提出规则，以文本给出，由人采纳。"
    ),
    "How many approvals a rule needs.": "一条规则需要多少次同意。",
    "nothing to suggest: no call was approved at least {count} times and never refused": (
        "没有可提出的：没有哪个调用至少被同意 {count} 次且从未被拒绝"
    ),
    "{name}: approvals: {count}, by {people}, from {oldest} to {newest}; none refused": (
        "{name}：同意 {count} 次，由 {people}，从 {oldest} 到 {newest}；无一被拒绝"
    ),
    "backtest: calls allowed: {allowed}, answers spared: {spared}, refused: {refused}": (
        "检验：允许的调用 {allowed}，省去的回答 {spared}，其中曾被拒绝的 {refused}"
    ),
    "Put what you agree with above the rules that ask. Nothing was changed.": (
        "把你同意的放在询问规则之前。什么都没有改动。"
    ),
}
