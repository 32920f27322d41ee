"""What commands, MCP clients and guarded programs are told no with."""

CHINESE = {
    "--all moves a journal into a database: --to postgresql://HOST/DATABASE": (
        "--all 把整个日志移入数据库：请给出 --to postgresql://HOST/DATABASE"
    ),
    "--to takes a folder of this machine, not an address like {}://…": "--to 需要本机的文件夹，而不是 {0}://… 这样的地址",
    "`--watch` shows all runs; `--where`, `--text` and `--sort` are asked once": (
        "`--watch` 显示所有运行；`--where`、`--text` 和 `--sort` 只查询一次"
    ),
    "`detent gateway --http` needs the package uvicorn: pip install 'detent[server]'": (
        "`detent gateway --http` 需要 uvicorn 包：pip install 'detent[server]'"
    ),
    "`detent gateway` needs the package mcp: pip install 'detent[mcp]'": (
        "`detent gateway` 需要 mcp 包：pip install 'detent[mcp]'"
    ),
    "`detent mcp` needs the package mcp: pip install 'detent[mcp]'": (
        "`detent mcp` 需要 mcp 包：pip install 'detent[mcp]'"
    ),
    "`detent mcp` needs {}: pip install 'detent[mcp]'": "`detent mcp` 需要 {0}：pip install 'detent[mcp]'",
    "`detent serve` needs {}: pip install 'detent[server]'": "`detent serve` 需要 {0}：pip install 'detent[server]'",
    "`token` is for a server's address; in a home of this machine DETENT_TOKEN says who you are": (
        "`token` 用于服务器地址；在本机的主目录中，由 DETENT_TOKEN 说明你是谁"
    ),
    "`{}` cannot be taken back, so it is not decided through MCP: a person answers with `detent approve {} {}`, "
    "or on the page": "`{0}` 无法撤回，所以不能通过 MCP 决定：请由人用 `detent approve {1} {2}` 或在页面上回答",
    "`{}` has no schedule, so there is nothing to catch up with": "`{0}` 没有时间表，所以没有什么可补跑的",
    "`{}` is async: `await` the ticket": "`{0}` 是异步的：请 `await` 该凭据",
    "`{}` is not a status; one of {}": "`{0}` 不是状态；可用的值：{1}",
    "`{}` is not a YAML workflow file inside the served folder": "`{0}` 不是所服务文件夹中的 YAML 工作流文件",
    "`{}` is not async, and waiting for it here would stop the journal: use a thread": (
        "`{0}` 不是异步的，在这里等待会使日志停住：请使用线程"
    ),
    "`{}` takes *{}; a guarded function's arguments have names": "`{0}` 接受 *{1}；受保护函数的参数必须有名称",
    "a guard at a server's address needs the package httpx2: pip install 'detent[client]'": (
        "通过服务器地址的保护需要 httpx2 包：pip install 'detent[client]'"
    ),
    "an argument cannot be written down as JSON: {}; name what is not part of the call in leave_out": "有一个参数不能写成 JSON：{0}；不属于调用的参数请写进 leave_out",
    "`{}` yields, and does its work after the call; guard a function that returns": "`{0}` 是生成器，调用之后才做事；请守护一个会返回的函数",
    "argument `{}` does not fit: {}": "参数 `{0}` 不合适：{1}",
    "the arguments are not JSON: {}": "这些参数不是 JSON：{0}",
    "the arguments are not a JSON object": "这些参数不是 JSON 对象",
    "the journal of {} is in a database; start `detent serve` with that home, and give the guard its address": "{0} 的日志在数据库中；请用该目录启动 `detent serve`，并把它的地址交给 guard",
    "`{}` cannot be the name of a server: letters, digits, `_`, `-`": "`{0}` 不能作为服务器的名称：只能用字母、数字、`_`、`-`",
    "two of the servers would have one name here; rename one of them": "其中两个服务器在这里会重名；请改其中一个的名称",
    "call `{}` of `{}` was made with other arguments before": "`{1}` 的调用 `{0}` 之前用了别的参数",
    "cannot read a key from {}: {}": "无法从 {0} 读取密钥：{1}",
    "contract `{}` of run {} has no open question; open: {}": "运行 {1} 的契约 `{0}` 没有待答的问题；待答的有：{2}",
    "effect `{}` is not one of pure, idempotent, irreversible": "效果 `{0}` 不是 pure、idempotent、irreversible 之一",
    "no armed trigger waits for the signal `{}`": "没有已启用的触发器在等待信号 `{0}`",
    "only a whole journal moves into a database: say --all": "只有整个日志才能移入数据库：请加 --all",
    "only {} may approve this, not {}": "只有 {0} 可以批准此事，{1} 不可以",
    "run {} ({}) has no open question": "运行 {0}（{1}）没有待答的问题",
    "run {} has ended ({})": "运行 {0} 已结束（{1}）",
    "run {} has ended ({}); only a waiting one can go on elsewhere": (
        "运行 {0} 已结束（{1}）；只有等待中的运行才能换到别处继续"
    ),
    "run {} has no document {}; it has {}": "运行 {0} 没有文档 {1}；它有 {2}",
    "run {} has {} open questions; say which one: {}": "运行 {0} 有 {1} 个待答的问题；请说明是哪一个：{2}",
    "run {} is paused already; `{}` lets it go on": "运行 {0} 已经暂停；用 `{1}` 让它继续",
    "say `key`: your own name for this start, so that trying again does not start it twice": (
        "请给出 `key`：你为这次启动取的名称，这样重试不会启动两次"
    ),
    "say which question of run {} is meant; open now: {}": "请说明指的是运行 {0} 的哪个问题；现在待答的有：{1}",
    "the key of `{}` is empty for this call": "`{0}` 这次调用的键是空的",
    "the key {} began run {}, with another workflow or input; use another key": (
        "键 {0} 已用别的工作流或输入启动了运行 {1}；请换一个键"
    ),
    "the policy is the server's: leave `policy` out": "策略由服务器决定：请去掉 `policy`",
    "the process that holds the journal cannot reach this one; see run {}": "持有日志的进程无法联系到本进程；请看运行 {0}",
    "the question of `{}` cannot be written: {} in {}": "无法写出 `{0}` 的问题：{2} 中的 {1}",
    "the server at {} cannot be reached: {}": "无法连接 {0} 的服务器：{1}",
    "there are no anchors in {}": "{0} 中没有锚点",
    "run {} began with other input ({}); give this one another id": "运行 {0} 开始时的输入不同（{1}）；请给这一个另一个 id",
    "there is a run {} already; give the new one another id": "已经有运行 {0}；请给新的运行另一个 id",
    "there is neither a file nor a run `{}`": "既没有文件也没有运行叫 `{0}`",
    "there is no argument `{}`; known: {}": "没有参数 `{0}`；已知的有：{1}",
    "there is no call {} to go on with": "没有可以继续的调用 {0}",
    "there is no contract `{}` in run {}": "运行 {1} 中没有契约 `{0}`",
    "there is no contract {} in run {}": "运行 {1} 中没有契约 {0}",
    "there is no detent.mcp.yaml here, so the gateway has nothing to offer": "这里没有 detent.mcp.yaml，所以网关没有可提供的工具",
    "there is no effect `{}`": "没有效果 `{0}`",
    "there is no journal in {}": "{0} 中没有日志",
    "there is no journal in {} yet, so there is nothing to anchor": "{0} 中还没有日志，所以没有什么可锚定的",
    "there is no open contract {}": "没有未了结的契约 {0}",
    "there is no such token or id, or it is used up": "没有这个令牌或 id，或者它已经用过了",
    "these are more than {} runs; take a shorter range": "这超过了 {0} 个运行；请取更短的范围",
    "this approval needs to know who gives it; set {}, or give --by": "此批准需要知道由谁给出；请设置 {0}，或给出 --by",
    "this form has fields MCP cannot show; answer with `detent answer {} {}`": (
        "此表单有 MCP 无法显示的字段；请用 `detent answer {0} {1}` 回答"
    ),
    "this guard knows the journal by a server's address only; ask that server": (
        "此保护只通过服务器地址认识日志；请向那台服务器查询"
    ),
    "this token is used up: its question has been answered": "此令牌已经用过：它的问题已有回答",
    "two tools are called `{}`": "有两个工具都叫 `{0}`",
    "waiting is {}; it must be 'block', 'raise' or 'ticket'": "waiting 是 {0}；它必须是 'block'、'raise' 或 'ticket'",
    "{} (give {}, or --input JSON)": "{0}（请给出 {1}，或 --input JSON）",
    "{} does not talk to programs": "{0} 不与程序对话",
    "{} is empty, or longer than {} characters": "{0} 是空的，或长于 {1} 个字符",
    "{} is not a detent server, or is an older one": "{0} 不是 detent 的服务器，或者版本较旧",
    "{} is not guarded; decorate it with @guard.tool(…)": "{0} 未受保护；请用 @guard.tool(…) 修饰它",
    "{} is not one SSH public key; it is the file whose name ends in .pub": (
        "{0} 不是一个 SSH 公钥；公钥是名称以 .pub 结尾的文件"
    ),
    "{} is there already and is not overwritten; give another name": "{0} 已经存在，不会被覆盖；请换一个名称",
    "{} wants this done, so somebody else must approve it": "此事由 {0} 提出，必须由别人批准",
    "{} said no": "{0} 拒绝了",
    "{}. Here: {}": "{0}。这里应使用：{1}",
    "{}: a workflow file is called NAME.yaml": "{0}：工作流文件的名称应为 NAME.yaml",
}
