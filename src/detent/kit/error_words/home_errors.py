"""People, sandboxes, backups, moves and anchors."""

CHINESE = {
    "{} cannot be a home: {}": "{0} 不能作为主目录：{1}",
    "{} does not hold the address of a database": "{0} 中没有数据库的地址",
    "a home is a folder, or a database: write postgresql://HOST/DATABASE": (
        "主目录是一个文件夹或一个数据库：请写 postgresql://主机/数据库"
    ),
    "this is not the address of a database; write postgresql://HOST/DATABASE": (
        "这不是数据库的地址；请写成 postgresql://HOST/DATABASE"
    ),
    "an address with a password is seen in the list of processes; give the password in PGPASSWORD, in a password file"
    " or in a service file": "带密码的地址会出现在进程列表中；请用 PGPASSWORD、密码文件或服务文件给出密码",
    "{} keeps its journal in a file; give --home postgresql://HOST/DATABASE": (
        "{0} 的日志保存在文件中；请给出 --home postgresql://HOST/DATABASE"
    ),
    "a journal in PostgreSQL needs {}: pip install 'detent[postgres]'": (
        "PostgreSQL 中的日志需要 {0}：pip install 'detent[postgres]'"
    ),
    "a worker is for runs in a database: give --home postgresql://HOST/DATABASE": (
        "工作进程用于数据库中的运行：请给出 --home postgresql://HOST/DATABASE"
    ),
    "`detent restore` puts a file back; this is for a database: give --home postgresql://HOST/DATABASE": (
        "`detent restore` 用于恢复文件，此命令用于数据库：请给出 --home postgresql://HOST/DATABASE"
    ),
    "--queues is `{}`; it must be some of {}": "--queues 是 `{0}`；它必须是其中若干个：{1}",
    "--name must be a name of at most {} characters": "--name 必须是不超过 {0} 个字符的名称",
    "this journal is in a database: back it up with pg_dump, and restore it with pg_restore": (
        "此日志在数据库中：请用 pg_dump 备份，用 pg_restore 恢复"
    ),
    "{} is `{}`; it must be a number, and 0 leaves all effects to workers": (
        "{0} 是 `{1}`；它必须是数字，0 表示所有调用都留给工作进程"
    ),
    "cannot open {}: {}": "无法打开 {0}：{1}",
    "{} has no journal yet; `detent db init` makes one": "{0} 还没有日志；用 `detent db init` 创建",
    "{} is of an older version (schema {}); `detent db migrate` updates it": (
        "{0} 是旧版本（表结构 {1}）；用 `detent db migrate` 更新"
    ),
    "{}: this host is closed": "{0}：此主机已关闭",
    "run {} is overtaken again and again; try later": "运行 {0} 一再被抢先；请稍后再试",
    "nobody knows whether the last word was kept: {}": "无人知道最后一条是否已保存：{0}",
    "no worker here is new enough for this run; update one": "这里没有足够新的工作进程来执行此运行；请更新一个",
    "no worker here has the effect `{}`": "这里没有工作进程具有效果 `{0}`",
    "no worker here has the effect `{}` of {}": "这里没有工作进程具有 {1} 的效果 `{0}`",
    "no worker is at `{}` since {}, where the files of this run are": (
        "自 {1} 起 `{0}` 没有工作进程，而此运行的文件在那里"
    ),
    "no worker takes local calls of new runs; start one with `detent worker`": (
        "没有工作进程接受新运行的本地调用；用 `detent worker` 启动一个"
    ),
    "no worker is there; start one with `detent worker`": "没有工作进程；用 `detent worker` 启动一个",
    "the journal of {} was moved to {}: give --home {}": "{0} 的日志已移到 {1}：请给出 --home {2}",
    "the journal of {} is being moved to {}: `detent move --all --to {}` finishes that, and `detent move --all --cancel`"
    " gives it up": (
        "{0} 的日志正在移往 {1}：`detent move --all --to {2}` 会完成移动，`detent move --all --cancel` 则放弃"
    ),
    "a journal is being moved to {}; the same `detent move` again finishes that": (
        "一个日志正在移往 {0}；再执行一次同样的 `detent move` 即可完成"
    ),
    "{} holds another journal; a journal moves into a database that has none": (
        "{0} 中有另一个日志；日志只能移入没有日志的数据库"
    ),
    "{}: what arrived is not what was sent": "{0}：到达的内容与发出的不同",
    "{} does not fit {}: only one of them can have the journal": "{0} 与 {1} 不相符：日志只能在其中之一",
    "{} has its journal in a database already": "{0} 的日志已经在数据库中",
    "{} was moved to {}": "{0} 已移到 {1}",
    "{} is being moved to {}; finish that, or give it up with --cancel": (
        "{0} 正在移往 {1}；请完成它，或用 --cancel 放弃"
    ),
    "no move of {} is under way": "{0} 没有正在进行的移动",
    "`{}` could not be called: {}": "无法调用 `{0}`：{1}",
    "`{}` is a group and nobody's name; say who you are": "`{0}` 是一个组，不是任何人的名字；请说明您是谁",
    "a journal cannot be restored to a time that is still to come": "日志不能恢复到尚未到来的时间",
    "by is {}; it must be a name, or an Identity": "by 是 {0}；它必须是一个名字或一个 Identity",
    "cannot back up {}: {}": "无法备份 {0}：{1}",
    "cannot be read: {}": "无法读取：{0}",
    "cannot move {} to {}: {}": "无法把 {0} 移到 {1}：{2}",
    "cannot read the journal in {}: {}": "无法读取 {0} 中的日志：{1}",
    "cannot read {}: {}": "无法读取 {0}：{1}",
    "cannot restore into {}: {}": "无法恢复到 {0}：{1}",
    "cannot use {}: {}": "无法使用 {0}：{1}",
    "cannot write {}: {}": "无法写入 {0}：{1}",
    "git: {}": "git 报告：{0}",
    "it is not signed": "它没有签名",
    "nobody would be an admin any more, and nobody could change that; make somebody else one first": (
        "这样就没有管理员了，也没有人能再改变这一点；请先让别人成为管理员"
    ),
    "process {} is using {}; end it first": "进程 {0} 正在使用 {1}；请先结束它",
    "run {} is the record of a restore; `detent restore --close-gap` closes it": (
        "运行 {0} 是一次恢复的记录；用 `detent restore --close-gap` 关闭它"
    ),
    "run {} keeps the changes of the people; `detent people` makes them": (
        "运行 {0} 保存人员的变更；请用 `detent people` 来变更"
    ),
    "ssh-keygen has not answered for {} s": "ssh-keygen 已有 {0} 秒没有回应",
    "ssh-keygen: {}": "ssh-keygen 报告：{0}",
    "the change does not fit: {}": "这个变更不合适：{0}",
    "the journal has {} claims of irreversible calls; it had {} when it was closed, and nothing was journalled since. "
    "Rebuild them from the events: detent doctor --repair": (
        "日志中有 {0} 个不可逆调用的占用；它关闭时有 {1} 个，此后没有写入任何事件。请根据事件重建：detent doctor --repair"
    ),
    "nothing that a step has started may {}; a person has to, outside of it": "步骤启动的程序都不能这样做（{0}）；必须由人在步骤之外来做",
    "the system does not show where this comes from, so it may not {}; log in, or give a token": "系统没有显示它来自哪里，因此它不能这样做（{0}）；请登录，或提供令牌",
    "the journal {} {}. What was here: {}. {}": "日志 {0} {1}。原来这里有：{2}。{3}",
    "the sandbox `{}`, which {} asks for, is not available here: {}; {}": "{1} 要求的沙箱 `{0}` 在这里无法使用：{2}；{3}",
    "there is a `{}` already; `detent people change {}` changes them": "已经有 `{0}` 了；用 `detent people change {1}` 来变更",
    "there is a journal in {}; --over puts the backup in its place and keeps that one aside": (
        "{0} 中已有日志；--over 会用备份代替它，并把它另存"
    ),
    "there is no git here": "这里没有 git",
    "there is no journal in {} yet, so there is nothing to back up": "{0} 中还没有日志，没有可备份的内容",
    "there is no journal in {}, so there is nothing to move": "{0} 中没有日志，没有可移动的内容",
    "`ssh-keygen` is missing, which makes and checks signatures; install the package `openssh-client`": (
        "没有 `ssh-keygen`，签名和核对都要靠它；请安装软件包 `openssh-client`"
    ),
    "ssh-keygen does not run on this machine: {}": "ssh-keygen 无法在这台机器上运行：{0}",
    "a signed text has at most {} characters": "被签名的文本最多 {0} 个字符",
    "no rule can answer `{}`: the answer must be signed": "没有规则能回答 `{0}`：回答必须签名",
    "the answer to `{}` must be signed, in a terminal: `{}`": "对 `{0}` 的回答必须在终端里签名：`{1}`",
    "the signed text is not an answer: {}": "被签名的文本不是一个回答：{0}",
    "the signed text is not canonical JSON: sorted keys, no blanks, every key once": (
        "被签名的文本不是规范的 JSON：键要排序，没有空白，每个键一次"
    ),
    "the signature is for another {}; sign this answer": "这个签名是为另一个 {0} 做的；请为这个回答签名",
    "the signature is not of `{}`, or not for this text": "这个签名不是 `{0}` 的，或不是为这段文本做的",
    "the signature was made {} s away from now; sign this answer again": "这个签名的时间与现在相差 {0} 秒；请重新签名",
    "this home knows nobody's keys; `detent people add NAME --role approver --key FILE`": (
        "这个 home 不知道任何人的密钥；`detent people add NAME --role approver --key FILE`"
    ),
    "the journal knows no key of `{}`: `detent people adopt` puts the file into it": (
        "日志不知道 `{0}` 的密钥：`detent people adopt` 会把文件写进去"
    ),
    "no SSH key of `{}` is known; an admin can add one: `detent people change {} --key FILE`": (
        "不知道 `{0}` 的 SSH 密钥；管理员可以添加：`detent people change {1} --key FILE`"
    ),
    "this is not a signature of `ssh-keygen -Y sign`": "这不是 `ssh-keygen -Y sign` 做的签名",
    "this journal has no id that could be signed": "这个日志没有可以签名的 id",
    "this journal is of an older version and has no id yet; any change gives it one": (
        "这个日志是较旧的版本，还没有 id；任何一次改动都会给它一个"
    ),
    "there is nobody called `{}` here": "这里没有叫 `{0}` 的人",
    "there is nobody called `{}`; known: {}": "没有叫 `{0}` 的人；已知的有：{1}",
    "these people cannot be written down": "这些人员无法写入文件",
    "this home has people, and their file is gone; put `detent.people.yaml` back into the home, or begin anew with "
    "`detent people adopt`": "这个主目录有人员，但他们的文件不见了；请把 `detent.people.yaml` 放回主目录，或用 `detent people adopt` 重新开始",
    "this host keeps no people": "这个宿主不保存人员",
    "this journal is not whole: {}{}; `detent doctor --deep` says more": "这个日志不完整：{0}{1}；`detent doctor --deep` 会说明更多",
    "{} did not take the anchor: {}": "{0} 没有接受锚点：{1}",
    "{} is inside {}": "{0} 在 {1} 里面",
    "{} is not a backup of a journal": "{0} 不是日志的备份",
    "{} is not a backup of a journal: {}": "{0} 不是日志的备份：{1}",
    "{} is there already; a home moves into a folder that is new or empty": "{0} 已经存在；主目录只能移到新的或空的文件夹",
    "{} is there already; another name, or --force": "{0} 已经存在；请换一个名字，或用 --force",
    "{} runs cannot be read; the first: {}": "有 {0} 个运行无法读取；第一个：{1}",
    "{} would write to {}: it is not a backup that detent made": "{0} 会写到 {1}：它不是 detent 做的备份",
    "{}, line {}: this is not an anchor ({})": "{0} 第 {1} 行：这不是锚点（{2}）",
    "{}: `{}` is not a time; {}": "{0}：`{1}` 不是时间；{2}",
    "the home is not at {} any more, so no sandbox can keep programs from it; put it back": (
        "主目录已经不在 {0}，沙箱无法让程序远离它；请把它放回去"
    ),
    "{} cannot be read: {}": "无法读取 {0}：{1}",
    "{} cannot be written: {}": "无法写入 {0}：{1}",
    "what was pasted is not JSON: {}": "粘贴的内容不是 JSON：{0}",
    'paste a block such as {"mcpServers": {"git": {"command": "mcp-server-git"}}}': '请粘贴形如 {"mcpServers": {"git": {"command": "mcp-server-git"}}} 的内容',
    "{} has no line `servers:`; put this under its servers:\n{}": "{0} 里没有 `servers:` 这一行；请把下面的内容放到它的服务器之下：\n{1}",
    "{} is not {} ({}); nothing was changed": "{0} 不是 {1}（{2}）；没有改动任何内容",
    "{} is not a JSON object; nothing was changed": "{0} 不是 JSON 对象；没有改动任何内容",
    "{} has other servers called {}; nothing was changed": "{0} 中已有名为 {1} 的其他服务器；没有改动任何内容",
    "{}. The entry, to be put in by hand (here as JSON): {}": "{0}。要手工写入的条目（此处为 JSON）：{1}",
    "{}: `{}` is written in a way that detent does not change; nothing was changed": "{0}：`{1}` 的写法 detent 不会改动；没有改动任何内容",
    "{}: `{}` is not a mapping of servers; nothing was changed": "{0}：`{1}` 不是服务器的映射；没有改动任何内容",
}
