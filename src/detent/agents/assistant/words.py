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
    "asks first": "先询问",
    "this": "这",
    "detent mcp speaks MCP on its standard input and output: an MCP client starts it.": (
        "detent mcp 通过标准输入和输出使用 MCP：由 MCP 客户端启动。"
    ),
    "Configure the client like this; Ctrl-C ends the waiting.": "请这样配置客户端；按 Ctrl-C 结束等待。",
    "go on with: {command}": "继续：{command}",
    "[y]es, [n]o, [e]dit, [l]ater? ": "[y] 同意，[n] 拒绝，[e] 修改参数，[l] 以后再说？",
    "Why? (Enter: no reason) ": "为什么？（回车：不说明）",
    "Arguments as JSON: ": "参数（JSON）：",
    "How do you know, or what did it give? ": "您如何得知，或者它给出了什么？",
    "Did it happen? [y]es, [n]o (do it now), [g]ive up, [l]ater? ": (
        "它发生了吗？[y] 发生了，[n] 没有（现在执行），[g] 放弃，[l] 以后再说？"
    ),
    "An empty line leaves a field out; ! rejects the form.": "空行表示不填；! 表示拒绝整个表单。",
    "thinking": "思考中",
    "the answer broke off; it is asked for again": "回答中断；正在重新请求",
    "what can be typed here": "这里可以输入什么",
    "the model, or another one: /model openai:NAME": "当前模型，或改用另一个：/model openai:NAME",
    "the tools, and which of them ask first": "工具，以及哪些会先询问",
    "tokens and cost of this conversation": "本次对话的 token 数和费用",
    "earlier conversations": "以前的对话",
    "go on with another conversation: /resume NAME": "继续另一个对话：/resume NAME",
    "go on with another conversation: /resume NAME; alone: answer what was left open here": (
        "继续另一个对话：/resume NAME；单独输入：回答这里留下的问题"
    ),
    "Left open; /resume asks again, and `detent list --waiting` shows it.": (
        "暂不回答；/resume 会再次询问，`detent list --waiting` 也会列出它。"
    ),
    "1 message": "1 条消息",
    "answering": "正在回答",
    "begin a new conversation": "开始新的对话",
    "take the last message and its answer out of the conversation": "从对话中去掉最后一条消息及其回答",
    "have the conversation so far summarised": "总结到目前为止的对话",
    "look for words in what was summarised: /search WORDS": "在已总结的内容中查找：/search WORDS",
    "what is remembered; /memory NUMBER TEXT corrects, /memory forget NUMBER forgets": (
        "记住了什么；/memory NUMBER TEXT 更正，/memory forget NUMBER 忘记"
    ),
    "plan first: only tools that change nothing, until /plan is typed again": (
        "先做计划：只用不改变任何东西的工具，直到再次输入 /plan"
    ),
    "write the conversation to a Markdown file: /export FILE": "把对话写入 Markdown 文件：/export FILE",
    "show contract numbers, statuses and hashes, or hide them again": "显示或隐藏合约编号、状态和哈希",
    "leave; so does Ctrl-D, and Ctrl-C twice": "离开；Ctrl-D 或按两次 Ctrl-C 也可以",
    "planning: nothing is changed until /plan is typed again": "计划模式：再次输入 /plan 之前不会改变任何东西",
    "there is no command `{word}`; /help lists them, and a blank in front says it to the model": (
        "没有命令 `{word}`；/help 会列出全部命令，前面加一个空格则发给模型"
    ),
    "  Enter sends; Alt-Enter, Ctrl-J or \\ at the end of a line begin a new line. @FILE attaches a file.": (
        "  Enter 发送；Alt-Enter、Ctrl-J 或行末的 \\ 换行。@FILE 附上文件或图片。"
    ),
    "  Esc stops an answer. Ctrl-R searches what was typed before. Tab completes.": (
        "  Esc 停止回答。Ctrl-R 搜索以前输入的内容。Tab 补全。"
    ),
    "taken back: {message}": "已撤回：{message}",
    "taken back: the summary; the conversation is as it was before": "已撤回：摘要；对话恢复原样",
    "written to {path}": "已写入 {path}",
    "{count} messages": "{count} 条消息",
    "nothing was said here yet": "这里还没有说过什么",
    "there is nothing to take back": "没有可以撤回的内容",
    "it stays done, and the model knows: {deed}": "已做的事仍然有效，模型也知道：{deed}",
    "nothing was found; only what was summarised is looked through": "没有找到；只查找已总结的内容",
    "forgotten": "已忘记",
    "nothing is remembered": "没有记住任何内容",
    "no longer planning: all tools are offered again": "计划模式结束：重新提供全部工具",
    "verbose": "详细",
    "brief": "简洁",
    "corrected": "已更正",
    "stopping…": "正在停止…",
    "Left open; this chat asks again when it is opened, and `detent list --waiting` shows it.": (
        "先不回答；再次打开对话时会重新询问，`detent list --waiting` 也会显示。"
    ),
    " · Esc stops it": " · 按 Esc 停止",
    "{tokens} tokens · {cost}": "{tokens} 个 token · {cost}",
    "Go on with the latest conversation.": "继续最近的对话。",
    "Only print the answer, for scripts; what is piped in goes with the message.": (
        "只输出回答，供脚本使用；管道输入的内容附在消息后面。"
    ),
    "Show contract numbers, statuses and hashes.": "显示合约编号、状态和哈希。",
    "Earlier you said: {message}": "您之前说：{message}",
    "summarised: {before} characters are {after} now; /search finds the rest": (
        "已总结：{before} 个字符变为 {after} 个；其余内容可用 /search 查找"
    ),
    "{cost} and {count} calls of unknown price": "{cost}，另有 {count} 次调用价格未知",
    "price not known": "价格未知",
    "A file or image that goes with MESSAGE.": "随 MESSAGE 一起发送的文件或图片。",
    "Did you mean {name}?": "您是想输入 {name} 吗？",
    "{share} % of the history": "历史已用 {share} %",
    "planning": "计划模式",
    "the conversation goes on; say it again to try again": "对话可以继续；再说一次即可重试",
    "The answer so far: {text}": "目前的回答：{text}",
    "The program ended before this was answered; it goes on now.": "程序在回答之前就结束了；现在继续。",
    "It waits for your answer:": "它在等待您的回答：",
    "there is nothing to summarise": "没有可以总结的内容",
    "the model gave no summary; nothing has changed": "模型没有给出总结；一切照旧",
    "stopped; what was said before stands": "已停止；之前说过的内容仍然有效",
    "  with {name}": "  附上 {name}",
    "  ? {name} was under way when the program ended": "  ? 程序结束时 {name} 正在执行",
    "    … {count} more lines of the change": "    … 还有 {count} 行改动",
    "{name} was done before and is not done again; it gave: {result}": (
        "{name} 以前已经执行过，不再执行；当时的结果：{result}"
    ),
    "Ctrl-C again leaves; Ctrl-D does, too.": "再按一次 Ctrl-C 离开；Ctrl-D 也可以。",
}
