"""Sentences about testing, exporting and watching workflows, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "  taken back by: {names}": "  已由以下调用撤回：{names}",
    "  not taken back by: {names}": "  以下调用未能撤回：{names}",
    "  a retry would make the same call: give it another key, or the arguments of that one": (
        "  重试只会发出同样的调用：请给它另一个键，或使用那次调用的参数"
    ),
    "  failed, and the run went on without it: {names}": "  失败，而运行在没有它们的情况下继续：{names}",
    "  do what failed again, in a new run: {command}": "  在新的运行中重做失败的部分：{command}",
    "List the files a run has kept, or fetch one.": "列出运行保存的文件，或取出其中一个。",
    "Where to write it; by default under its own name.": "写到哪里；默认用它自己的名称。",
    "no artefacts": "没有产物",
    "Make a test case from a run; it is written to FILE if one is given.": "由一次运行生成用例；给出 FILE 时写入其中。",
    "Play N random stories of workflow files, and print the smallest that fails as a case.": (
        "把工作流文件随机演练 N 遍，并把最小的失败情形打印成用例。"
    ),
    "The seed of the random stories; 0 by default.": "随机情形的种子；默认 0。",
    "the file of run {run} is not there any more, so no case can name it": "运行 {run} 的文件已不在，用例无法引用它",
    "random stories are drawn by hypothesis, which is not installed; `pip install 'detent[fuzz]'`": (
        "随机情形由 hypothesis 抽取，而它没有安装；请运行 `pip install 'detent[fuzz]'`"
    ),
    "  waiting for its time in `{key}`: number {number}": "  在 `{key}` 中等待轮到：第 {number} 个",
    "not driven": "无人驱动",
    "  nobody drives it; `detent serve` does, or {command}": "  无人驱动；可用 `detent serve` 或 {command}",
    "name a file with cases, or a run with --record": "请给出含用例的文件，或用 --record 给出运行",
    "name one file that the case is added to, or none": "请只给出一个要追加用例的文件，或不给",
    "this case does not hold as it is: a run has more to it than a case can say": (
        "这个用例目前不成立：运行中有用例说不出的内容"
    ),
    "ok    {file}: {count} random stories": "通过  {file}：{count} 次随机演练",
    "FAIL  {file}: {problem}": "失败  {file}：{problem}",
    "# and the process dies at moment {moment}: play it with --crash": (
        "# 并且进程在时刻 {moment} 死亡：请用 --crash 演练"
    ),
    "List the states and transitions that no case covers.": "列出没有任何用例经过的状态和转移。",
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
    "Accept a part of a workflow; it begins at its first state.": "把文件当作工作流的片段：从第一个状态开始。",
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
