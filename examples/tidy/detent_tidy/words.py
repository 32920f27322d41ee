"""The agent's sentences in Chinese."""

CHINESE = {
    "Find old files in a folder, and remove them once you agree.": "查找文件夹中的旧文件，经您同意后删除。",
    "How old a file must be, in days.": "文件至少多少天未改动。",
    "there is no folder {folder}": "没有文件夹 {folder}",
    "Nothing is that old.": "没有这么旧的文件。",
    "Removed: {names}": "已删除：{names}",
    "; changed meanwhile and left alone: {names}": "；期间有改动、未删除：{names}",
}
