"""Sentences about models."""

CHINESE: dict[str, str] = {
    "none configured, so `{name}` answers the examples; for a real one set DETENT_MODEL to openai:NAME or "
    "anthropic:NAME with OPENAI_API_KEY or ANTHROPIC_API_KEY, or DETENT_BASE_URL to any OpenAI-compatible server": (
        "未配置模型，示例由 `{name}` 回答；要使用真正的模型，请把 DETENT_MODEL 设为 openai:名称 或 anthropic:名称，"
        "并设置 OPENAI_API_KEY 或 ANTHROPIC_API_KEY；或把 DETENT_BASE_URL 指向任何兼容 OpenAI 的服务器"
    ),
    "{name} needs a package: pip install 'detent[{extra}]'": "{name} 需要安装一个包：pip install 'detent[{extra}]'",
    "the provider's own server": "提供方自己的服务器",
    "{name} at {where}": "{name}，位于 {where}",
}
