"""Sentences about testing, exporting and watching workflows, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "Also die at every write and in every call: the end must be the same.": (
        "还要在每次写入和每次调用中死一次：结局必须相同。"
    ),
    "Write it as lines of JSON that can be verified without detent.": "写成逐行 JSON，无需 detent 即可验证。",
    "With --export or --verify: every run.": "与 --export 或 --verify 一起用：所有运行。",
    "say which run: RUN, or --all together with --export or --verify": (
        "请指定运行：RUN，或将 --all 与 --export 或 --verify 一起用"
    ),
    "--export and --verify do not go together": "--export 与 --verify 不能一起用",
    "--all goes with --export or --verify": "--all 只能与 --export 或 --verify 一起用",
    "Stay, and show every change as it comes.": "留在这里，随时显示每个变化。",
    "{count} more, for which there is no room here": "还有 {count} 个，此处放不下",
    "{count} runs, {clock}; Ctrl-C ends this": "{count} 个运行，{clock}；按 Ctrl-C 结束",
    "{clock}  {run_id} is no longer in this list": "{clock}  {run_id} 已不在此列表中",
}
