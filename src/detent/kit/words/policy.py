"""The sentences about policies and messages, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "{path}, {count} rules": "{path}，{count} 条规则",
    "The policy file; by default $DETENT_POLICY, or detent.policy.yaml beside the home.": (
        "策略文件；默认是 $DETENT_POLICY，或 home 旁边的 detent.policy.yaml。"
    ),
    "ok: a policy with one rule": "正确：策略，1 条规则",
    "ok: a policy with {count} rules": "正确：策略，{count} 条规则",
    "{name}: the policy's rule `{rule}` says {decision}": "{name}：策略规则 `{rule}` 的决定是 {decision}",
    "rule": "规则",
    "told {to}: {message}": "已通知 {to}：{message}",
    "to be told to {to}: {message} ({why})": "待通知 {to}：{message}（{why}）",
    "not yet delivered": "尚未送达",
    "message to {to}: {message}": "给 {to} 的消息：{message}",
}
