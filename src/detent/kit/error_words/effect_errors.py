"""Of effects: why a call to the outside did not work."""

CHINESE = {
    "{}: {}; nothing was appended": "{0}：{1}；没有追加任何内容",
    "reading changes nothing": "读取不会改变任何东西",
    "{} was last changed before this was to be done": "{0} 上次改动早于要做这件事的时间",
    "there is no {}": "没有 {0}",
    "`{}` wants a model or folders of detent's; it offers only people's answers": "`{0}` 想要 detent 的模型或文件夹；detent 只提供人的答复",
    "`{}` reported an error": "`{0}` 报告了错误",
    "the server `{}` has no tool `{}` any more": "服务器 `{0}` 不再有工具 `{1}`",
    "{}; start the run again, or say in detent.mcp.yaml what it is": "{0}；请重新启动运行，或在 detent.mcp.yaml 中说明它是什么",
    "{}: the message is in it, but it may not last: {}": "{0}：消息已写入，但可能保存不住：{1}",
    "`{}` ended with exit code {}{}": "`{0}` 以退出码 {1} 结束{2}",
    "the secret `{}` is not set in the environment": "环境中没有设置密钥 `{0}`",
    "`{}` could not be started: {}": "`{0}` 无法启动：{1}",
    "server `{}` cannot be reached: {}{}": "服务器 `{0}` 无法连接：{1}{2}",
    "server `{}` did not answer within {} s": "服务器 `{0}` 在 {1} 秒内没有回应",
    "server `{}`: there is no program `{}`": "服务器 `{0}`：没有程序 `{1}`",
    "there is no program `{}`": "没有程序 `{0}`",
    "{} (error {})": "{0}（错误 {1}）",
}
