"""Sentences about doubts, repeats and alarms."""

CHINESE: dict[str, str] = {
    "What became of a deed nobody is sure about; or `use` the result of the same deed, done before.": (
        "说明一个无人确定的操作的结果；或用 `use` 采用先前同一操作的结果。"
    ),
    "With `--outcome happened` or `use`: what it gave.": "与 `--outcome happened` 或 `use` 一起用：它得到的结果。",
    "--result goes with --outcome happened or use": "--result 只能与 --outcome happened 或 use 一起用",
    "`{name}` was cut off and may have happened; asking in {time}, when nothing of it can land": (
        "`{name}` 被中断，可能已经发生；{time}后它不会再到达，届时询问"
    ),
    "cause": "原因",
    "the process that made the call ended before an answer came": "发出调用的进程在得到回答之前结束了",
    "came back": "返回",
    "may land": "可能到达",
    "since {clock} nothing of it can be under way": "从 {clock} 起它不会再有任何部分在进行",
    "until {clock} ({when}); that it did not happen counts only then": (
        "直到 {clock}（{when}）；在那之后才能说它没有发生"
    ),
    "before": "先前",
    "done at {clock} ({when}) by {name} of run {run_id}": "{clock}（{when}）由运行 {run_id} 的 {name} 完成",
    "perhaps done at {clock} ({when}) by {name} of run {run_id}": "{clock}（{when}）可能已由运行 {run_id} 的 {name} 完成",
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
    "  look into it: {command}": "  请查看：{command}",
}
