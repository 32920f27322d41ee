"""Chinese sentences of `detent serve`."""

CHINESE: dict[str, str] = {
    "Make the calls of runs whose journal is in a database.": "执行数据库中各运行的调用。",
    "Make, update or check the tables of a database.": "创建、更新或检查数据库中的表。",
    "How many calls at once.": "同时执行多少个调用。",
    "works on {name} at {place}, {slots} calls at once; runs taken up: {count}": (
        "正在 {place} 处理 {name}，同时 {slots} 个调用；接手的运行：{count}"
    ),
    "Its place: workers with the same name see the same files.": "它所在的位置：同名的工作进程看到同样的文件。",
    "Which queues it takes calls from: {words}.": "它从哪些队列接受调用：{words}。",
    "How long its place may be away before runs ask a person.": "其位置离开多久后运行才会询问人。",
    "Move the whole journal into a database: --to postgresql://…": "把整个日志移入数据库：--to postgresql://…",
    "Abandon an unfinished move into a database.": "放弃一次尚未完成的移动。",
    "say either --to, or --all --cancel": "请给出 --to，或者 --all --cancel",
    "moved {runs} runs, {events} events and {claims} claims, all equal on both sides": (
        "已移动 {runs} 个运行、{events} 个事件和 {claims} 个占用，两边完全一致"
    ),
    "the old journal is sealed; give --home {address} from now on": "旧日志已封存；从现在起请给出 --home {address}",
    "copied to {home}: {names}": "已复制到 {home}：{names}",
    "not moved: {names}": "未移动：{names}",
    "given up; the journal stays in {home}": "已放弃；日志留在 {home}",
    "With `restored`: when the copy was made.": "与 restored 一起使用：副本的时刻。",
    "--since goes with `restored`, which needs it": "--since 与 `restored` 一起使用，且后者必须有它",
    "restored as of {clock}, epoch {epoch}": "已恢复到 {clock}，纪元 {epoch}",
    "this journal was moved to {address}; this is how it was then": "此日志已移到 {address}；这里是当时的样子",
    "do it elsewhere:": "在别处执行：",
    "{count} calls wait: {problem}": "{count} 个调用在等待：{problem}",
    "Stopping; another worker goes on with what is not finished in time.": "正在停止；未及时完成的由其他工作进程继续。",
    "{name}: PostgreSQL {server}, schema {version}": "{name}：PostgreSQL {server}，表结构版本 {version}",
    "{runs} runs, {at_work} calls at work, {queued} jobs waiting, {workers} workers": (
        "{runs} 个运行，{at_work} 个调用在执行，{queued} 个任务在等待，{workers} 个工作进程"
    ),
    "the sweep never had to put anything right": "清扫从未需要纠正任何东西",
    "the sweep had to put {count} things right; that should not be": "清扫不得不纠正 {count} 处；本不应如此",
    "the tables are of version {version}, not {known}": "表的版本是 {version}，而不是 {known}",
    "the database does not answer; nothing is lost, and this worker goes on when it is back": (
        "数据库没有回应；没有任何丢失，它恢复后这个工作进程会继续"
    ),
    "the database does not answer; still waiting": "数据库没有回应；仍在等待",
    "this detent is older; update it": "这个 detent 较旧；请更新它",
    "Serve the web page and the API.": ("提供网页和 API。"),
    "The address to listen on; only this machine by default.": "监听的地址；默认只对本机开放。",
    "The port; 0 picks a free one.": "使用的端口；0 表示任选一个空闲端口。",
    "A file with the token that callers must send.": "存放令牌的文件；调用者必须出示该令牌。",
    "Hooks, webhooks and limits; detent.serve.yaml by default.": (
        "入站钩子、出站 webhook 与各项限制；默认读取 detent.serve.yaml。"
    ),
    "Open the page in a browser.": "在浏览器中打开网页。",
    "detent serves at {address}": "detent 正在 {address} 提供服务",
    "This link logs you in, once and within ten minutes; `detent people link NAME` makes others:": (
        "此链接可让你登录，仅限一次且十分钟内有效；`detent people link NAME` 可再生成："
    ),
    "People log in with their token, or with a link from `detent people link NAME`.": (
        "用令牌登录，或使用 `detent people link NAME` 生成的链接登录。"
    ),
    "Callers must send the token: Authorization: Bearer …": "调用者必须出示令牌：Authorization: Bearer …",
    "Another process holds the journal; requests are handed to it, and this server takes over when it exits.": (
        "另一个进程正持有日志；这里的请求会转交给它，它退出后由本进程接管。"
    ),
    "Ctrl-C stops it.": "按 Ctrl-C 停止。",
    "{title} asks": "{title} 有问题待答",
    "{count} questions wait for an answer": "{count} 个问题等待回答",
    "{title} has ended": "{title} 已结束",
    "{title} has failed": "{title} 已失败",
    "{title} was stopped": "{title} 已停止",
    "and {count} more: {link}": "另有 {count} 个：{link}",
    "Stopping; active runs continue at the next start.": "正在停止；进行中的运行会在下次启动时继续。",
}
