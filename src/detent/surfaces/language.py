"""The language of the surfaces: sentences are written in English and looked up in the reader's catalogue.

A sentence without an entry stays English; a test sees to it that there is none.
"""

import os


def language() -> str:
    """`zh` for Simplified Chinese, else `en`: DETENT_LANG first, then what the system says."""
    for name in ("DETENT_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if found := os.environ.get(name):
            return "zh" if found.lower().startswith("zh") else "en"
    return "en"


def _(english: str, **values: object) -> str:
    """A sentence in the reader's language, with its values filled in."""
    text = CHINESE.get(english, english) if language() == "zh" else english
    return text.format(**values) if values else text


CHINESE: dict[str, str] = {
    "A durable state-machine runtime for AI agents: kill it at any byte, nothing is lost.": (
        "面向 AI 智能体的持久状态机运行时：在任何一个字节处被杀掉，什么都不会丢。"
    ),
    "RUN is an id, the unambiguous beginning of one, or `last`. Every command takes --json.": (
        "RUN 可以是运行的 id、能唯一确定它的开头，或 `last`。每个命令都可加 --json。"
    ),
    "Start a run and stay with it until it ends or waits.": "启动一个运行，并一直跟到它结束或等待。",
    "Say whether a definition file is sound.": "检查一个定义文件是否正确。",
    "Tell a run that something happened.": "告诉运行发生了某件事。",
    "Answer yes to a question.": "对问题回答“同意”。",
    "Answer no to a question.": "对问题回答“拒绝”。",
    "Fill in a form, or say what became of a deed.": "填写表单，或说明一个操作的结果。",
    "Stop a run and everything it has under way.": "停止一个运行及其正在进行的一切。",
    "Let a run begin nothing new.": "暂停：不再开始新的操作。",
    "Go on after a crash, an interruption or a pause.": "在崩溃、中断或暂停之后继续。",
    "Begin a new run where another one was.": "从另一个运行的某一处开始新的运行。",
    "Let a waiting run go on under another machine.": "让等待中的运行改用另一个状态机继续。",
    "Show where a run stands.": "显示运行目前的状况。",
    "Show what happened in a run, event by event.": "逐个事件显示运行中发生了什么。",
    "List the runs, newest first.": "列出所有运行，最新的在前。",
    "Follow a run's events until it ends.": "跟踪运行的事件，直到它结束。",
    "Check this installation and its journal.": "检查本机安装及其日志。",
    "Print the completion script for a shell.": "输出 shell 的补全脚本。",
    "Print the version.": "输出版本号。",
    "Draw a machine, or a run with its path and present state.": "绘制一台状态机，或一次运行及其路径和当前状态。",
    "Play the cases of a workflow, with made-up tools and time.": "用模拟的工具和时间试验工作流的用例。",
    "Write a workflow to begin with, and its cases.": "写一个可供起步的工作流及其用例。",
    "Print the JSON Schema of workflow files.": "输出工作流文件的 JSON Schema。",
    "Which template; without it they are listed.": "用哪个模板；不给出则列出全部模板。",
    "say which template: --template NAME, one of {names}": "请指定模板：--template NAME，可选 {names}",
    "try it: {command}": "试一试：{command}",
    "begin with one: {command}": "从一个模板开始：{command}",
    "Show what would be called and asked; touch nothing.": "只显示会调用什么、会问什么；不触碰任何东西。",
    "With --dry-run: what the tools answer.": "与 --dry-run 一起用：各工具的回答。",
    "--answers goes with --dry-run": "--answers 只能与 --dry-run 一起用",
    "in `{name}`": "在 `{name}`",
    "  would call {name} {value}": "  会调用 {name} {value}",
    "  would ask at {name}: {question}": "  会在 {name} 询问：{question}",
    "  would sleep for {time}": "  会睡眠 {time}",
    "  would wait for a signal: {events}": "  会等待信号：{events}",
    "  and so on: it would sleep here again": "  如此反复：会再次在这里睡眠",
    "  would need an answer at {name}: {problem}": "  需要在 {name} 得到回答：{problem}",
    "dry run: {status} in `{state}`; nothing was touched": "演练：{status}，在 `{state}`；没有触碰任何东西",
    "ok    {name}": "通过  {name}",
    "FAIL  {name}  {where}": "失败  {name}  {where}",
    "        {key}: expected {value}": "        {key}：应为 {value}",
    "        {key}: came     {value}": "        {key}：实为 {value}",
    "        the script was refused: {problem}": "        脚本的这一步被拒绝：{problem}",
    "        {problem}": "        {problem}",
    "{passed} passed, {failed} failed": "{passed} 个通过，{failed} 个失败",
    "How to draw.": "绘制方式。",
    "Write the picture to this file.": "将图写入该文件。",
    "Colours of an SVG.": "SVG 的配色。",
    "written to {file}": "已写入 {file}",
    "Commands": "命令",
    "Where the journal is (else $DETENT_HOME, else .detent here).": (
        "日志所在的文件夹（否则用 $DETENT_HOME，再否则用当前目录的 .detent）。"
    ),
    "Where the journal is.": "日志所在的文件夹。",
    "Answer in JSON.": "以 JSON 回答。",
    "Who says so; by default the system's user name.": "是谁说的；默认是系统的用户名。",
    "Why; kept in the journal.": "理由；会记入日志。",
    "The run's input, a JSON object.": "运行的输入，一个 JSON 对象。",
    "One value of the input; may be repeated.": "输入中的一个值；可以重复。",
    "The run's id; the same id twice is the same run.": "运行的 id；同一个 id 就是同一个运行。",
    "Approve with these arguments instead.": "同意，但改用这些参数。",
    "Values for the run's context.": "写入运行上下文的值。",
    "What was filled in, for a form.": "表单填写的内容。",
    "What became of a deed nobody is sure about.": "说明一个无人确定的操作的结果。",
    "With `--outcome happened`: what it gave.": "与 `--outcome happened` 一起用：它得到的结果。",
    "What comes with the signal, a JSON object.": "随信号带来的数据，一个 JSON 对象。",
    "A signal with an id counts once.": "带 id 的信号只算一次。",
    "After which event; by default the latest.": "在哪个事件之后；默认是最后一个。",
    "The new run's id.": "新运行的 id。",
    "The state of the new machine to go on in.": "在新状态机的哪个状态中继续。",
    "Also say how it got there: what was tried, with which values.": (
        "同时说明是怎么到这里的：试过什么，当时的值是什么。"
    ),
    "Replay the run and check every hash.": "重放整个运行并核对每个哈希。",
    "Also replay every run and check every hash.": "同时重放每个运行并核对每个哈希。",
    "Only those that wait.": "只列出等待中的。",
    "Only those; may be repeated.": "只列出这些；可以重复。",
    "At most so many.": "最多这么多。",
    "Begin after this event.": "从这个事件之后开始。",
    "Error: {message}": "错误：{message}",
    "Warning: {message}": "警告：{message}",
    "Unexpected: {message}": "意外：{message}",
    "`{command} --help` says how it is used.": "用法见 `{command} --help`。",
    "This is a fault of detent; {name}=1 shows where. What was acknowledged is in the journal.": (
        "这是 detent 的缺陷；设 {name}=1 可看到位置。已确认的内容都在日志里。"
    ),
    "interrupted": "已中断",
    "The run goes on in another process; see it with: {command}": "运行在另一个进程中继续；查看：{command}",
    "The run is safe. Go on with: {command}": "运行是安全的。继续：{command}",
    "Stopping: what is at work may finish for a moment; Ctrl-C again stops at once.": (
        "正在停止：进行中的操作还有片刻可以完成；再按一次 Ctrl-C 立即停止。"
    ),
    "give either --data or --outcome": "请给出 --data 或 --outcome 其中之一",
    "--result goes with --outcome happened": "--result 只能与 --outcome happened 一起用",
    "{name} must be a JSON object, like {example}": "{name} 必须是 JSON 对象，例如 {example}",
    "{name} is not JSON: {problem}": "{name} 不是 JSON：{problem}",
    "--set takes key=value, not `{given}`": "--set 的格式是 key=value，不是 `{given}`",
    "--set {key}: `{part}` is not an object": "--set {key}：`{part}` 不是对象",
    "nothing to take up": "没有要继续的运行",
    "ok: machine `{name}`, {count} states": "正确：状态机 `{name}`，{count} 个状态",
    "run {run_id} was already there; going on with it": "运行 {run_id} 已经存在；继续它",
    "no runs": "没有运行",
    "run": "运行",
    "machine": "状态机",
    "state": "状态",
    "status": "状况",
    "changed": "变化",
    "question": "问题",
    "pending": "未开始",
    "running": "进行中",
    "waiting": "等待中",
    "completed": "已完成",
    "failed": "已失败",
    "rejected": "已拒绝",
    "cancelled": "已取消",
    "paused": "已暂停",
    "contract": "契约",
    "call": "调用",
    "hash": "哈希",
    "approvers": "审批人",
    "needed": "需要",
    "form": "表单",
    "expires": "到期",
    "{done} of {count} have approved": "{count} 人中已有 {done} 人同意",
    "… {count} more characters are NOT shown here; --json shows all": "… 还有 {count} 个字符没有显示；--json 显示全部",
    "  output: {value}": "  输出：{value}",
    "  context: {value}": "  上下文：{value}",
    "  go on: {command}": "  继续：{command}",
    "  at work; if nobody drives it: {command}": "  进行中；若无人驱动它：{command}",
    "  waits for a signal: {events}": "  等待信号：{events}",
    "  tell it: {command}": "  发送：{command}",
    "  wakes at {clock} ({when})": "  {clock} 醒来（{when}）",
    "  sleeps until {clock}; Ctrl-C is safe": "  睡到 {clock}；按 Ctrl-C 是安全的",
    "run {run_id} started in `{state}`": "运行 {run_id} 在 `{state}` 开始",
    "{way} on {event}": "{way}（{event}）",
    "  {name}: {effect} began": "  {name}：{effect} 开始",
    "  {name} waits": "  {name} 等待",
    "  {name} completed{spent}": "  {name} 完成{spent}",
    "  {name} failed{spent}: {problem}": "  {name} 失败{spent}：{problem}",
    "  {name} rejected: {problem}": "  {name} 被拒绝：{problem}",
    "  {name} cancelled{spent}": "  {name} 取消{spent}",
    "  {type} is caught: {problem}": "  {type} 已被处理：{problem}",
    " after {time}": "，用时 {time}",
    " by {name}": "，{name}",
    "started{by}, input {value}": "开始{by}，输入 {value}",
    "signal {name}{by}{value}": "信号 {name}{by}{value}",
    "if {condition}: {value}  with {values}": "条件 {condition}：{value}，当时 {values}",
    "cannot be computed: {problem}": "无法计算：{problem}",
    "ok: {count} events replay to the same run; checkpoint {hash}": (
        "正确：{count} 个事件重放得到同一个运行；检查点 {hash}"
    ),
    "after event {seq}: {problem}": "事件 {seq} 之后：{problem}",
    "{count} ms": "{count} 毫秒",
    "{count} s": "{count} 秒",
    "{count} min": "{count} 分钟",
    "{count} h": "{count} 小时",
    "{count} d": "{count} 天",
    "just now": "刚刚",
    "{time} ago": "{time}前",
    "in {time}": "{time}后",
    "ok": "正常",
    "note": "提示",
    "low risk": "低风险",
    "problem": "问题",
    "{number}; detent needs 3.40 or newer": "{number}；detent 需要 3.40 或更新的版本",
    (
        "{number} has the WAL-reset bug (3.7.0 to 3.51.2, repaired too in 3.44.6 and 3.50.7): if two connections "
        "write or checkpoint at the same instant, committed pages can be lost. detent has a single writing connection "
        "in a single process, so this should not occur; keep other programs from writing the journal, or use "
        "SQLite 3.51.3 or newer."
    ): (
        "{number} 有 WAL 重置缺陷（3.7.0 至 3.51.2；3.44.6 和 3.50.7 也已修复）：如果两个连接在同一瞬间写入或"
        "做检查点，已提交的页可能丢失。detent 只有一个进程中的一个写连接，所以不应发生；请不要让其他程序写这个"
        "日志，或改用 SQLite 3.51.3 及更新的版本。"
    ),
    "not found; only coding runs need it": "没有找到；只有编码运行需要它",
    "a Jupyter kernel is installed": "已安装 Jupyter 内核",
    "{names} not installed; only notebook runs need it: pip install 'detent[notebook]'": (
        "{names} 没有安装；只有笔记本运行需要它：pip install 'detent[notebook]'"
    ),
    "{count} MB free for {path}": "{path} 还有 {count} MB 可用",
    "{path} is not there yet; the first run makes it": "{path} 还不存在；第一个运行会创建它",
    "{path} cannot be made: {place} is not writable": "无法创建 {path}：{place} 不可写",
    "{path} is not writable": "{path} 不可写",
    "{path} is not a folder": "{path} 不是文件夹",
    "{path} is yours alone": "{path} 只有您能访问",
    "others may use {path} (mode {mode}): chmod {wanted}": "其他人可以使用 {path}（权限 {mode}）：chmod {wanted}",
    "nobody writes the journal now": "现在没有进程在写日志",
    "process {pid} writes the journal, since {when}": "进程 {pid} 正在写日志，始于{when}",
    "sound, schema {version}, {count} kB": "完好，模式版本 {version}，{count} kB",
    "run {run_id}, after event {seq}: {problem}": "运行 {run_id}，事件 {seq} 之后：{problem}",
    "{count} runs replay to what the journal says": "{count} 个运行重放的结果与日志一致",
}
