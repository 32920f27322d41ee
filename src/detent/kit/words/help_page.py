"""Words that click writes into a page of help by itself."""

CHINESE: dict[str, str] = {
    "Usage: ": "用法：",
    "Options": "选项",
    "[OPTIONS]": "[选项]",
    "COMMAND [ARGS]...": "命令 [参数]...",
    "INTEGER": "N",
    "FLOAT": "N",
    "default: {value}": "默认：{value}",
    "required": "必填",
    "Show this message and exit.": "显示此帮助并退出。",
}
