"""Sentences about models and about MCP."""

CHINESE: dict[str, str] = {
    "none configured, so `{name}` answers the examples; for a real one set DETENT_MODEL to openai:NAME or "
    "anthropic:NAME with OPENAI_API_KEY or ANTHROPIC_API_KEY, or DETENT_BASE_URL to any OpenAI-compatible server": (
        "未配置模型，示例由 `{name}` 回答；要使用真正的模型，请把 DETENT_MODEL 设为 openai:名称 或 anthropic:名称，"
        "并设置 OPENAI_API_KEY 或 ANTHROPIC_API_KEY；或把 DETENT_BASE_URL 指向任何兼容 OpenAI 的服务器"
    ),
    "{name} needs a package: pip install 'detent[{extra}]'": "{name} 需要安装一个包：pip install 'detent[{extra}]'",
    "the provider's own server": "提供方自己的服务器",
    "{name} at {where}; {price}": "{name}，位于 {where}；{price}",
    "its price is not known, so a limit in dollars cannot be kept; DETENT_PRICES names a table": (
        "价格未知，因此无法遵守以美元计的上限；可用 DETENT_PRICES 指定价格表"
    ),
    "{input} and {output} USD for a million tokens in and out ({source})": (
        "每百万 token 输入 {input} 美元、输出 {output} 美元（{source}）"
    ),
    "Serve runs to MCP clients, or list MCP servers and their tools.": (
        "向 MCP 客户端提供运行，或列出 MCP 服务器及其工具。"
    ),
    "trusted": "受信任",
    "not trusted": "不受信任",
    "{name}: there is no program `{program}`": "{name}：没有程序 `{program}`",
    "there is no server `{name}`; known: {names}": "没有服务器 `{name}`；已知的有：{names}",
    "no servers: there is no {file} here": "没有服务器：这里没有 {file}",
    "Let the MCP client's user approve irreversible calls as well.": ("允许 MCP 客户端的用户也批准无法撤回的操作。"),
    "{count} tools": "{count} 个工具",
    "  {count} of them count as irreversible because nobody says otherwise whose word counts. If one only reads, write "
    "`TOOL: {{effect: pure}}` under `tools` of `{name}` in {file}.": (
        "  其中 {count} 个按不可逆处理，因为没有可信的说明。如果某个工具只是读取，请在 {file} 中 `{name}` 的 `tools` 下"
        "写上 `工具名: {{effect: pure}}`。"
    ),
}
