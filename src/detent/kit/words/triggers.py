"""Sentences about triggers and groups, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "Arm what starts runs by itself: schedules, hooks, files, other runs, signals.": (
        "启用会自行启动运行的触发器：日程、钩子、文件、其他运行、信号。"
    ),
    "Show what the armed schedules start next.": "显示已启用的日程接下来会启动什么。",
    "Arm the triggers of a file as it is now.": "按文件现在的内容启用其中的触发器。",
    "List the triggers, with their last and next times.": "列出触发器及其上一次和下一次的时间。",
    "Disarm the triggers of a file, or one by its name.": "停用一个文件的触发器，或按名称停用一个。",
    "Pause a trigger: it starts nothing until it is resumed.": "暂停触发器：恢复之前不再启动任何运行。",
    "Resume a trigger; what was planned in the meantime is not started.": "恢复触发器；其间计划的运行不会补上。",
    "Start a run now, as the trigger would.": "像触发器那样，现在就启动一个运行。",
    "What its expressions read as `event`.": "其表达式以 `event` 读取的内容。",
    "The planned time it stands for, like 2026-01-31T02:00.": "它所代表的计划时间，例如 2026-01-31T02:00。",
    "Start the runs that are missing for planned times in the past.": "为过去没有运行的计划时间补启动运行。",
    "The first moment, like 2026-01-31.": "起始时刻，例如 2026-01-31。",
    "The last moment; now by default.": "结束时刻；默认为现在。",
    "Only list them.": "只列出它们。",
    "Start what is due now and wait for it: for cron or systemd, where no server runs.": (
        "启动现在到期的运行并等待其结束：在没有服务器时供 cron 或 systemd 调用。"
    ),
    "Send a signal to the triggers that wait for it.": "向等待某个信号的触发器发送该信号。",
    "Its data, a JSON object.": "信号所带的内容，一个 JSON 对象。",
    "The same id twice counts once.": "同一个 id 出现两次只算一次。",
    "How many to show.": "显示多少个。",
    "Nothing is planned: no armed trigger has a schedule.": "没有计划：已启用的触发器都没有日程。",
    "moved: the clock leaves its time out": "已顺延：时钟跳过了这个时间",
    "once: the clock shows this time twice": "只算一次：时钟会两次显示这个时间",
    "No trigger is armed here. Begin with: {command}": "此处没有启用的触发器。可以这样开始：{command}",
    "Nothing drives them now: start `{serve}`, or let cron call `{due}`.": (
        "现在没有进程驱动它们：请启动 `{serve}`，或让 cron 调用 `{due}`。"
    ),
    "the file has changed since: add it again": "文件此后有改动：请重新启用",
    "the file is unreadable": "文件无法读取",
    "next {time}": "下一次 {time}",
    "last {run}": "上一次 {run}",
    "armed": "已启用",
    "paused": "已暂停",
    "removed": "已移除",
    "  waiting for a place in `{key}`: number {number}, behind run {run_id}": (
        "  等待 `{key}` 中的位置：第 {number} 个，前面是运行 {run_id}"
    ),
    "Nothing was due.": "没有到期的运行。",
    "starts nothing: {why}": "不启动任何运行：{why}",
    "Nothing new: {count} were there already.": "没有新的：{count} 个早已存在。",
}
