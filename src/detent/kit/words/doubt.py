"""Sentences about doubts, repeats and alarms."""

CHINESE: dict[str, str] = {
    "The outcome of a call in doubt; or `use` the result of the same call, made before.": (
        "结果未知的调用的结果；或用 `use` 采用先前同一调用的结果。"
    ),
    "With `--outcome happened` or `use`: its result.": "与 `--outcome happened` 或 `use` 一起用：它得到的结果。",
    "--result goes with --outcome happened or use": "--result 只能与 --outcome happened 或 use 一起用",
    "`{name}` was cut off and may have happened; asking in {time}": "`{name}` 被中断，可能已经发生；{time}后询问",
    "List calls whose outcome is unknown, or settle many at once.": "列出结果未知的调用，或一次了结多个。",
    "Only doubts about this effect.": "只处理关于这个 effect 的疑问。",
    "Every open doubt.": "所有未了结的疑问。",
    "The outcome of each of them.": "它们各自的结果。",
    "Ask each effect's probe whether the call happened.": "向每个 effect 本身查询是否发生过。",
    "With `--outcome happened`: its result.": "与 `--outcome happened` 一起用：它得到的结果。",
    "--all goes without RUN and without --effect": "--all 不能与 RUN 或 --effect 一起用",
    "give either --outcome or --probe": "请给出 --outcome 或 --probe 其中之一",
    "say which doubts: RUN…, --effect NAME or --all": "请说明是哪些疑问：RUN…、--effect NAME 或 --all",
    "--result goes with --outcome happened": "--result 只能与 --outcome happened 一起用",
    "no open doubts": "没有未了结的疑问",
    "{name}: {count} in doubt": "{name}：{count} 个存疑",
    "  that they did not happen can be said from {clock} on": "  从 {clock} 起才能说它们没有发生",
    "settled {done} of {count}": "{count} 个中已了结 {done} 个",
    "the runs are now: {statuses}": "这些运行现在：{statuses}",
    "Rebuild claims that do not match the events.": "重写与事件不符的占用记录。",
    "comparing the claims with the events of {count} runs; this takes a while": (
        "正在把占用记录与 {count} 个运行的事件核对；需要一些时间"
    ),
    "repaired: {problem}": "已修复：{problem}",
    "rebuild them with: {command}": "重写它们：{command}",
    "they match the events": "与事件一致",
    "{key} is held by {name} of run {run_id}, but its claim is gone: it could be done twice": (
        "{key} 由运行 {run_id} 的 {name} 持有，但占用记录不见了：同一操作可能做两次"
    ),
    "{key} is claimed for {name} of run {run_id}, which does not hold it": (
        "{key} 记为由运行 {run_id} 的 {name} 占用，而它并不持有"
    ),
    "run {run_id}: {problem}": "运行 {run_id}：{problem}",
    "Do it again? [y]es, [u]se that result, [n]o, [e]dit, [l]ater? ": (
        "再做一次吗？[y] 是，[u] 采用那个结果，[n] 否，[e] 修改，[l] 以后？"
    ),
    "cause": "原因",
    "the process that made the call ended before an answer came": "发出调用的进程在得到回答之前结束了",
    "came back": "返回",
    "may land": "可能到达",
    "since {clock} it can no longer be under way": "从 {clock} 起它不可能仍在进行",
    'until {clock} ({when}); "it did not happen" is accepted only after that': (
        "直到 {clock}（{when}）；在那之后才能说它没有发生"
    ),
    "before": "先前",
    "done at {clock} ({when}) by {name} of run {run_id}": "{clock}（{when}）由运行 {run_id} 的 {name} 完成",
    "perhaps done at {clock} ({when}) by {name} of run {run_id}": (
        "{clock}（{when}）可能已由运行 {run_id} 的 {name} 完成"
    ),
    "that run was started by {name}": "该运行由 {name} 启动",
    "it was approved by {name}": "由 {name} 批准",
    "error": "错误",
    "result": "结果",
    "too long to show here: {command}": "太长，无法在此显示：{command}",
    "… {count} lines before; --json shows all": "… 前面还有 {count} 行；--json 显示全部",
    "do it again:": "再做一次：",
    "use that result:": "采用那个结果：",
    "stop:": "停止：",
    "  ALARM: {problem}": "  警报：{problem}",
    "ALARM: {problem}": "警报：{problem}",
    "  look into it: {command}": "  请查看：{command}",
}
