"""Sentences about what is known of a home's journal, and about sandboxes."""

CHINESE: dict[str, str] = {
    "Forget the journal that was here, and go on without it.": "忘掉曾在此处的日志，不带它继续。",
    "the journal is in use, so it is here and nothing is forgotten": "日志正在使用中：它就在这里，没有忘掉任何东西",
    "forgotten: {journal}": "已忘掉：{journal}",
    "levels that can be had: {levels}": "可用的级别：{levels}",
    "{level} cannot be had: {problem}": "{level} 不可用：{problem}",
    "nothing is known of an earlier journal": "没有关于先前日志的记录",
}
