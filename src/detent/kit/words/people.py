"""The sentences about people, in Simplified Chinese."""

CHINESE: dict[str, str] = {
    "Say who may do what here, and how each of them is recognised.": "说明这里谁可以做什么，以及如何认出每个人。",
    "Print the JSON Schema of workflow files, policies or people files.": "输出工作流、策略或人员文件的 JSON Schema。",
    "Take it away instead.": "改为取消。",
    "A role they have; may be repeated.": "他们拥有的角色；可多次给出。",
    "A group they are in; may be repeated.": "他们所在的组；可多次给出。",
    "Somebody they may answer for.": "他们可以代其回答的人。",
    "A file with their SSH public key.": "含有其 SSH 公钥的文件。",
    "Their user name on this machine.": "他们在本机的用户名。",
    "Their name as a trusted proxy passes it on.": "受信任的代理传来的名字。",
    "Make a token for them; it is shown once.": "为他们生成令牌；只显示一次。",
    "Add a person.": "添加一个人。",
    "say what they may do: --role {roles}": "请说明他们可以做什么：--role {roles}",
    "Change what is known of a person.": "修改关于一个人的信息。",
    "A role they lose.": "要取消的角色。",
    "A group they leave.": "要离开的组。",
    "Somebody they no longer speak for.": "不再代其发言的人。",
    "A key they lose.": "要取消的公钥。",
    "Give a person roles, or take them away.": "给一个人角色，或取消角色。",
    "Put a person into groups, or take them out.": "把一个人加入组，或移出组。",
    "Make a new token for a person; it is shown once, and the old one stops working.": (
        "为一个人生成新令牌；只显示一次，旧令牌随即失效。"
    ),
    "Make a link that logs a person in to the page; it works once, for ten minutes.": (
        "生成让某人登录页面的链接，仅限一次且十分钟内有效。"
    ),
    "Where the server is; http://127.0.0.1:8410 by default.": "服务器的地址；默认 http://127.0.0.1:8410。",
    "This link logs {name} in, once and within ten minutes:": "此链接可让 {name} 登录，仅限一次且十分钟内有效：",
    "Remove a person.": "移除一个人。",
    "Record a manual edit of the people file in the journal.": "把对人员文件的手工修改记入日志。",
    "List the people.": "列出所有人。",
    "There are no people here: names are only claimed. Begin with: {command}": (
        "这里没有登记人员：名字只是自称。这样开始：{command}"
    ),
    "Show a person.": "显示一个人。",
    "there is nobody called `{name}`; known: {names}": "没有叫 `{name}` 的人；已知：{names}",
    "{name}: an attempt to answer{by} was refused": "{name}：回答的尝试{by} 被拒绝",
    "{name} for {other}": "{name} 代 {other}",
    "claimed": "自称",
    "yes": "是",
    "You ({name}) are an admin: somebody must be.": "您（{name}）是管理员：总得有一位。",
    "changed; there is one person now": "已修改；现在有 1 个人",
    "changed; there are {count} people now": "已修改；现在有 {count} 个人",
    "The token of {name}; it is shown only once:": "{name} 的令牌；只显示这一次：",
    "ok: people, {count} of them": "正确：人员，共 {count} 人",
    "{path}, {count} people": "{path}，{count} 人",
    "Only claimed: this home has no people, so nobody checks these names.": (
        "只是自称：这个 home 没有登记人员，没有人核对这些名字。"
    ),
    "`{action}` asks certain people, and this home has none: their names are only claimed ({command})": (
        "`{action}` 要问特定的人，而这个 home 没有登记人员：名字只是自称（{command}）"
    ),
    "{known}, signed": "{known}，已签名",
    "signature": "签名",
    "Every answer must be signed.": "每个回答都必须签名。",
    "Sign the answer with your SSH key; by default the one that is registered.": (
        "用你的 SSH 密钥为回答签名；默认用已登记的那一把。"
    ),
    "Only print the text to sign, for a key on another machine.": "只打印要签名的文本，供另一台机器上的密钥使用。",
    "A signature made elsewhere; the text it is for lies beside it, without `.sig`.": (
        "在别处做的签名；它所签的文本就在旁边，文件名没有 `.sig`。"
    ),
    "--sign, --print-payload and --signature do not go together": "--sign、--print-payload 和 --signature 不能同时使用",
    "this home knows nobody's keys, so nobody can sign; begin with: {command}": (
        "这个 home 不知道任何人的密钥，所以没有人能签名；先执行：{command}"
    ),
    "{file} must end in .sig, as ssh-keygen names it; the text lies beside it without that": (
        "{file} 必须以 .sig 结尾，ssh-keygen 就是这样命名的；文本在旁边，文件名没有它"
    ),
    "no registered key of {name} is in the SSH agent or in ~/.ssh; say which: --sign KEYFILE, or {variable}": (
        "SSH agent 和 ~/.ssh 里都没有 {name} 登记过的密钥；请指明：--sign KEYFILE，或 {variable}"
    ),
    "signed answers that hold: {count}": "有效的签名回答：{count}",
    "is missing, so no answer can be signed or checked; install `openssh-client`": (
        "没有安装，所以无法为回答签名或核对；请安装 `openssh-client`"
    ),
}
