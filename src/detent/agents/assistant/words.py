"""Sentences of the assistant's surfaces."""

CHINESE: dict[str, str] = {
    "CAREFUL": "小心",
    "{word} in {token}": "{token} 中的 {word}",
    "{word}: every letter is {script} and looks like a Latin one": (
        "{word}：每个字母都属于 {script} 文字，看起来却像拉丁字母"
    ),
    "Delete old runs that protect no irreversible call.": "删除不再保护任何不可逆调用的旧运行。",
    "How long ago a run must have ended, like 90d or 12h.": "运行结束多久以后可清除，例如 90d 或 12h。",
    "Only list what would be deleted.": "只列出会删除什么。",
    "{count} runs deleted; {kept} older ones are kept because they protect an irreversible call": (
        "已删除 {count} 个运行；另有 {kept} 个较旧的运行因为仍在保护不可逆调用而保留"
    ),
    "{count} runs would be deleted; {kept} older ones are kept because they protect an irreversible call": (
        "将删除 {count} 个运行；另有 {kept} 个较旧的运行因为仍在保护不可逆调用而保留"
    ),
    "--older-than takes a time like 90d, not `{given}`": "--older-than 需要像 90d 这样的时间，而不是 `{given}`",
    "{name}, confirmation": "{name} 的确认",
    "Chat with the assistant; it asks before anything irreversible.": "与助手对话；不可逆的事会先询问。",
    "The conversation to start or continue.": "要开始或继续的会话。",
    "A Python file whose effects are the tools.": "一个 Python 文件，其中的 effect 就是工具。",
    "A built-in effect to offer as well.": "另外提供的内置 effect。",
    "The model to use instead of $DETENT_MODEL.": "不用 $DETENT_MODEL，而用另一个模型。",
    "session {session}; {who}": "会话 {session}；{who}",
    "model {name}": "模型 {name}",
    "no model is configured: built-in rules answer a few sentences (see `detent doctor`)": (
        "没有配置模型：由规则回答少数几句话（详见 `detent doctor`）"
    ),
    "tools: {names}": "工具：{names}",
    "no tools: --tools, --tool or detent.mcp.yaml": "没有工具：可用 --tools、--tool 或 detent.mcp.yaml 提供",
    "{tools}; /help, /exit": "{tools}；/help，/exit",
    "Type a message. /tools lists the tools, /exit or Ctrl-D ends the chat.": (
        "输入消息。/tools 列出工具，/exit 或 Ctrl-D 结束对话。"
    ),
    "asks first": "先询问",
    "this": "这",
    "detent mcp speaks MCP on its standard input and output: an MCP client starts it.": (
        "detent mcp 通过标准输入和输出使用 MCP：由 MCP 客户端启动。"
    ),
    "Configure the client like this; Ctrl-C ends the waiting.": "请这样配置客户端；按 Ctrl-C 结束等待。",
    "go on with: {command}": "继续：{command}",
    "Left open; the commands above answer it at any time.": "先不回答；随时可用上面的命令回答。",
    "[y]es, [n]o, [e]dit, [l]ater? ": "[y] 同意，[n] 拒绝，[e] 修改参数，[l] 以后再说？",
    "Why? ": "为什么？",
    "Arguments as JSON: ": "参数（JSON）：",
    "How do you know, or what did it give? ": "您如何得知，或者它给出了什么？",
    "Did it happen? [y]es, [n]o (do it now), [g]ive up, [l]ater? ": (
        "它发生了吗？[y] 发生了，[n] 没有（现在执行），[g] 放弃，[l] 以后再说？"
    ),
    "An empty line leaves a field out; ! rejects the form.": "空行表示不填；! 表示拒绝整个表单。",
}
