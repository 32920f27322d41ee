"""Sentences about testing, exporting and watching workflows, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "Say which states and transitions no case goes through.": "说明哪些状态和转移没有任何用例经过。",
    "`{name}`: {states} of {all_states} states entered, {rows} of {all_rows} transitions taken": (
        "`{name}`：进入了 {all_states} 个状态中的 {states} 个，走过了 {all_rows} 条转移中的 {rows} 条"
    ),
    "  never entered: {state}": "  从未进入：{state}",
    "  never taken: {source} → {target}": "  从未走过：{source} → {target}",
    "  would leave out {name}: {problem}": "  会略去 {name}：{problem}",
    "Translate a state machine of Amazon States Language into a workflow file.": (
        "把 Amazon States Language 的状态机译成工作流文件。"
    ),
    "Where to write it; otherwise it is printed.": "写到哪个文件；不给出则打印。",
    "{name}, as JSON": "{name}（JSON 格式）",
    "Take a part of a workflow: it begins at its first state.": "把文件当作工作流的片段：从第一个状态开始。",
    "Repeat each case with a crash at every write and call; the end must be the same.": (
        "在每次写入和每次调用处各崩溃一次，重跑每个用例；结局必须相同。"
    ),
    "Export as JSON lines that can be verified without detent.": "写成逐行 JSON，无需 detent 即可验证。",
    "With --export or --verify: every run.": "与 --export 或 --verify 一起用：所有运行。",
    "say which run: RUN, or --all together with --export or --verify": (
        "请指定运行：RUN，或将 --all 与 --export 或 --verify 一起用"
    ),
    "--export and --verify do not go together": "--export 与 --verify 不能一起用",
    "--all goes with --export or --verify": "--all 只能与 --export 或 --verify 一起用",
    "Keep running and show every change.": "持续运行，显示每个变化。",
    "{count} more that do not fit here": "还有 {count} 个，此处放不下",
    "{count} runs, {clock}; Ctrl-C ends this": "{count} 个运行，{clock}；按 Ctrl-C 结束",
    "{clock}  {run_id} is no longer in this list": "{clock}  {run_id} 已不在此列表中",
}
