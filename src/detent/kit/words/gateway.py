"""Chinese sentences of `detent gateway`, `detent hook` and `detent mcp add`."""

CHINESE: dict[str, str] = {
    "Offer the tools of your MCP servers again, behind contracts, to any MCP client.": (
        "把你的 MCP 服务器的工具置于契约之后，再提供给任何 MCP 客户端。"
    ),
    "Serve over streamable HTTP on this port.": "在此端口上通过可流式 HTTP 提供服务。",
    "The address of the page where questions are answered, for clients to show.": "回答问题的网页地址，会告诉客户端。",
    "the gateway serves at {address}": "网关正在 {address} 提供服务",
    "The gateway speaks MCP on its standard input and output: an MCP client starts it.": (
        "网关在标准输入输出上使用 MCP：由 MCP 客户端启动它。"
    ),
    "`detent gateway install CLIENT` tells a client so; Ctrl-C ends the waiting.": (
        "`detent gateway install CLIENT` 会告诉客户端；按 Ctrl-C 结束等待。"
    ),
    "say which client: {names}": "请说明是哪个客户端：{names}",
    "{client} starts the gateway now: {file}": "{client} 现在会启动网关：{file}",
    "Take the servers that are behind it out of that file, or they can be called directly as well.": (
        "请把网关之后的服务器从该文件中移除，否则它们仍可被直接调用。"
    ),
    "the gateway is no longer in {file}": "网关已不在 {file} 中",
    "Put the commands, edits and requests of a coding agent behind the policy and the inbox.": (
        "把编码智能体的命令、编辑和网络请求置于策略与收件箱之后。"
    ),
    "Take the kinds that `add` proposes, without asking.": "直接采用 `add` 提议的种类，不再询问。",
    "say which server: {names}": "请说明是哪个服务器：{names}",
    "Open this page to log in:": "请打开此页面登录：",
    "the login to {name} is forgotten": "已忘记对 {name} 的登录",
    "there is a server `{name}` already": "已经有名为 `{name}` 的服务器",
    "Add them like this?": "就这样添加吗？",
    "written to {file}": "已写入 {file}",
    "Nothing was written; `--yes` takes it as it is.": "没有写入任何内容；`--yes` 会照此采用。",
    "{file} cannot be read: {problem}": "无法读取 {file}：{problem}",
    "Paste the block of JSON, then Ctrl-D:": "粘贴 JSON，然后按 Ctrl-D：",
    "Decide on the call that standard input describes.": "裁决标准输入中描述的一次调用。",
    "How many seconds to wait for a person.": "等人回答多少秒。",
    "This goes into {file}.": "请写入 {file}。",
    "Codex runs a hook only once you have trusted it (/hooks); until then its calls are not asked about.": (
        "Codex 只运行你已信任的钩子（/hooks）；在那之前，它的调用不会被询问。"
    ),
    "the call cannot be read: {problem}": "无法读懂这次调用：{problem}",
    "It waits for a person: {question}": "它在等人回答：{question}",
    "Make the same call again after the decision.": "裁决之后请再做同样的调用。",
    "the gateway was not in {file}": "网关本来就不在 {file} 中",
}
