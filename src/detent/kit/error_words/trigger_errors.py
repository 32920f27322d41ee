"""Of triggers and schedules."""

CHINESE = {
    "`{}` is no time zone here; write one such as Europe/Berlin (`pip install tzdata` brings them all)": "`{0}` 不是此处的时区；请写如 Europe/Berlin（`pip install tzdata` 提供全部时区）",
    "`{}` is no time; write 2026-01-31, or 2026-01-31T08:00": "`{0}` 不是时间；请写 2026-01-31 或 2026-01-31T08:00",
    "{} has no `triggers`": "{0} 没有 `triggers`",
    "`{}` is armed from {}; remove that one first, or give one of them another name": "`{0}` 已由 {1} 启用；请先移除它，或给其中一个换个名称",
    "there is no trigger `{}`; armed: {}": "没有触发器 `{0}`；已启用：{1}",
}
