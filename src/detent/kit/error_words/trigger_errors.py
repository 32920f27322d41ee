"""Of triggers and schedules."""

CHINESE = {
    "`{}` is not a time zone here; write one such as Europe/Berlin (`pip install tzdata` brings them all)": "`{0}` 不是此处的时区；请写如 Europe/Berlin（`pip install tzdata` 提供全部时区）",
    "`{}` is not a time; write 2026-01-31, or 2026-01-31T08:00": "`{0}` 不是时间；请写 2026-01-31 或 2026-01-31T08:00",
    "a cron line has five fields: {}; once a day is `0 0 * * *`": "cron 行有五个字段：{0}；每天一次是 `0 0 * * *`",
    "`{}` cannot be the {}: {}; a range goes upwards, as in `1-5`": "`{0}` 不能作为 {1}：{2}；范围要从小到大，如 `1-5`",
    "this never comes: there is no such day": "永远不会到来：没有这样的日子",
    "`{}` has no planned time {}; the next one is {}": "`{0}` 没有计划时间 {1}；下一个是 {2}",
    "{} has no `triggers`": "{0} 没有 `triggers`",
    "`{}` is armed from {}; remove that one first, or give one of them another name": "`{0}` 已由 {1} 启用；请先移除它，或给其中一个换个名称",
    "there is no trigger `{}`; armed: {}": "没有触发器 `{0}`；已启用：{1}",
}
