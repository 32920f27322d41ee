"""Sentences of `detent code`."""

CHINESE: dict[str, str] = {
    "Turn a requirement into a verified change in a git repository.": "把一个需求变成 git 仓库中经过验证的改动。",
    "Plan a requirement, ask you to confirm, and carry it out.": "为需求制定计划，征得确认，然后执行。",
    "Use this plan file instead of making a plan.": "使用这个计划文件，不另行制定。",
    "The worker to use instead of the configured one.": "由谁来做，代替设置中的工作者。",
    "The planner to use.": "由谁来制定计划。",
    "Run `git init` where there is no repository.": "没有仓库时运行 `git init`。",
    "Confirm the plan without asking, and land what was verified.": "不询问，直接确认计划，并将已验证的改动并入。",
    "Land what was verified without asking.": "不询问，直接将已验证的改动并入。",
    "give them what they need": "给它们所需的东西",
    "go on without them, and do not ask again": "不管它们，继续，并不再询问",
    "  {question}  {command}": "  {question}  {command}",
    "  pull request: {url}": "  合并请求：{url}",
    "Work on an issue: plan it, carry it out, push a branch and open a draft pull request.": (
        "处理一个 issue：规划、执行、推送分支并打开草稿合并请求。"
    ),
    "Give them what? (paths or variables; nothing: go on without)": "给它们什么？（路径或变量；不填则继续）",
    "{number} of {count}": "第 {number} 个，共 {count} 个",
    "{place}: accept, reject REMARK, all, quit?": (
        "{place}：接受（accept）、拒绝（reject 意见）、其余全接受（all）还是退出（quit）？"
    ),
    "What is wrong with it?": "哪里不对？",
    "Look at the change that waits to land: accept it, or send parts of it back.": (
        "查看等待并入的改动：接受它，或把其中一部分退回。"
    ),
    "Let it land as it is.": "按现状并入。",
    "Send this hunk back to the worker.": "把这个片段退回给工作者。",
    "What is wrong: one text for each --reject, or one for all.": "哪里不对：依次对应每个 --reject，或针对整体。",
    "The digest of the difference you looked at.": "你看过的差异的摘要。",
    "Neither accept nor reject: block the job.": "既不接受也不退回：阻塞任务。",
    "say one of --accept, --reject and --stop": "请在 --accept、--reject 和 --stop 中选一个",
    "  let it land: {command}": "  并入：{command}",
    "  send a part back: {command}": "  退回一部分：{command}",
    "Blocked: some tests pass only in your own tree; name the files they need.": (
        "已阻塞：说明只在您自己的目录中通过的测试需要什么。"
    ),
    "A socket or folder outside of the project.": "项目之外的套接字或文件夹。",
    "Include nothing; go on without these tests.": "什么都不需要：不管这些测试，继续。",
    "name what they need, or say --none": "请说明它们需要什么，或使用 --none",
    "remembered here; for everybody, in {file}: {line}": "已在此处记住；若对所有人生效，请写入 {file}：{line}",
    "the requirement is empty": "需求为空",
    "job {run_id} is over; its lease was taken over": "任务 {run_id} 已结束；它的占用已被接管",
    "There is no git repository here. Run `git init`?": "这里没有 git 仓库。要运行 `git init` 吗？",
    "no git repository here: checkpoints are kept in .detent; `--init` makes one": (
        "这里没有 git 仓库：检查点保存在 .detent 中；`--init` 可建立仓库"
    ),
    "wrote {file}; checks: {names}": "已写入 {file}；检查：{names}",
    "Go, modify …, or cancel?": "执行（Go）、修改（modify …）还是取消（cancel）？",
    "  after {tasks}": "  在 {tasks} 之后",
    "none": "无",
    "  risk: {risk}": "  风险：{risk}",
    "  checks: {names}; worker: {worker}": "  检查：{names}；工作者：{worker}",
    "  judged by: {names}; changes to these wait for your approval": "  评判依据：{names}；对它们的改动须经你批准",
    "        must not fail any more: {names}": "        不得再失败：{names}",
    "  checks that fail already are not held against it; `Mends: NAME` in a task, or `all`, says otherwise": (
        "  原本就失败的检查不算在它头上；在任务中写 `Mends: 名称` 或 `all` 则另当别论"
    ),
    "checked: nothing that passed before fails now, but what failed before fails still": (
        "已检查：之前通过的仍然通过，但之前失败的仍然失败"
    ),
    "  still failing, as before the job: {names}": "  和任务开始前一样仍然失败：{names}",
    "planning": "正在规划",
    "in the middle of a {name}: the job works on the files as they are, and leaves it to you": (
        "正在进行 {name}：任务就在文件现状上工作，其余留给你完成"
    ),
    "plan again": "重新规划",
    "the model plans": "模型正在规划",
    "running the checks as things are before the job": "正在按任务开始前的状态运行检查",
    "keeping the files as they are": "正在保存文件现状",
    "{task}, attempt {attempt}: `{worker}` is at work": "{task}，第 {attempt} 次尝试：`{worker}` 正在工作",
    "{task}: running the checks": "{task}：正在运行检查",
    "putting files back": "正在恢复文件",
    "archiving": "正在归档",
    "  nobody is at work on it now; go on: {command}": "  现在没有进程在处理它；继续：{command}",
    "choosing what is next": "正在决定下一步",
    "writing down what is wrong": "正在写下问题所在",
    "  the worker ended after {time}": "  工作者在 {time} 后结束",
    "  edit it: {file}": "  可编辑：{file}",
    "Confirm the plan and start working on it.": "确认计划：开始执行。",
    "The digest of the plan you reviewed.": "你审阅过的计划的摘要。",
    "the plan was edited; confirm what it is now": "计划已被编辑；请确认它现在的内容",
    "Ask for changes to the plan.": "修改计划。",
    "Cancel a plan that has not been confirmed.": "放弃尚未确认的计划。",
    "Pause: calls under way finish, nothing new starts.": "不再开始新的操作；正在进行的继续。",
    "Continue after a pause, a crash or an interruption.": "在暂停、崩溃或中断之后继续。",
    "Stop the worker now; the job then waits for you.": "立即结束工作者；任务等待您处理。",
    "Blocked: you fixed it, or give the worker a hint. The checks run first.": (
        "已阻塞：我修好了，或者给出做法。先验证，然后工作者继续。"
    ),
    "A protected path this task may change.": "允许此任务修改的受保护路径。",
    "Blocked: answer the worker's question.": "已阻塞：回答工作者的问题。",
    "Blocked: restore the task's files and start the task again.": "已阻塞：还原任务的文件，让工作者重新开始。",
    "Blocked: skip the task and everything that depends on it.": "已阻塞：跳过此任务及依赖它的任务。",
    "Keep what it has changed so far.": "保留它已经做的修改。",
    "Blocked: raise the job's budget.": "已阻塞：放宽任务的预算。",
    "More dollars.": "增加的美元数。",
    "More minutes.": "增加的分钟数。",
    "More changed lines.": "增加的改动行数。",
    "say how much more: --cost, --minutes or --lines": "请说明增加多少：--cost、--minutes 或 --lines",
    "Roll the files back to a checkpoint; the present files are checkpointed first.": (
        "把文件还原到某个检查点；还原前的内容也会成为检查点。"
    ),
    "Roll back to before the job.": "还原到整个任务之前。",
    "Roll back to this checkpoint, by its id or the beginning of it.": "还原到此检查点；给出开头即可。",
    "put back to {target}: {count} files": "已还原到 {target}：{count} 个文件",
    "Move the job to a state, if exactly one command leads there.": ("把任务移到某个状态，仅当恰有一个命令通向那里。"),
    "Set a task's status: DONE (checked first), BLOCKED or PENDING.": (
        "声明任务为 DONE（先验证）、BLOCKED 或重新 PENDING。"
    ),
    "What was done.": "做了什么。",
    "Show where the job stands, with its errors.": "显示任务的状况及其错误。",
    "  the files have changed since they were last verified": "  文件在上次验证之后有改动",
    "List the checkpoints, oldest first.": "列出检查点，最早的在前。",
    "Those of every job.": "所有任务的。",
    "Show what the job has changed, or one of its tasks.": "显示任务或其中一项所做的改动。",
    "List the finished jobs, newest first.": "列出已完成的任务，最新的在前。",
    "{done} of {count} tasks": "{count} 项中完成 {done} 项",
    "no finished jobs": "没有已完成的任务",
    "Show the record of a finished job, as a text for a pull request.": "显示已完成任务的记录，可用作合并请求的说明。",
    "Check what a job needs here: git, worker, checks, lease, heartbeat.": (
        "检查此处任务所需：git、工作者、检查、占用、心跳。"
    ),
    "will be written by the first job": "将由第一个任务写入",
    "check {name}": "检查 {name}",
    "worker": "工作者",
    "lease": "占用",
    "stale; the next job takes it over": "已失效；下一个任务会接管",
    "at work; last event {when}": "正在进行；最近事件 {when}",
    "heartbeat": "心跳",
    "The records of finished jobs.": "已完成任务的记录。",
    "  (paused)": "  （已暂停）",
    " ({count} attempts)": "（{count} 次尝试）",
    "final verification": "最终验证",
    "  the whole report: {file}": "  完整报告：{file}",
    "  plan {digest}: {file}": "  计划 {digest}：{file}",
    "  go: {command}": "  执行：{command}",
    "  {outcome}": "  {outcome}",
    "  record: {file}": "  记录：{file}",
    "  take it back: {command}": "  撤销：{command}",
    "I fixed it, or here is a hint": "我修好了，或给出提示",
    "begin the task again from its checkpoint": "从检查点重新开始此任务",
    "leave the task out": "跳过此任务",
    "answer the worker": "回答工作者",
    "look at the changes that wait for you": "查看等待您过目的改动",
    "accept them": "接受这些改动",
    "left out of the checks: {name}": "未列入检查：{name}",
    "found the agent `{name}`; it will plan and work": "找到代理 `{name}`；由它规划并执行",
    "verified: the tests ran and passed, by name, where the worker could not reach": (
        "已验证：在工作者够不到的地方，测试逐个运行并通过"
    ),
    "checked: the checks succeeded, but no test vouches for it by name": "已检查：检查成功结束，但没有逐个测试为它担保",
    "unverified: there are no checks": "未验证：没有任何检查",
    "end the job and keep what was done, unverified": "结束任务并保留已做的改动（未经验证）",
    "Blocked: accept changes to tests and check settings, as they are now.": (
        "已阻塞：接受对测试和检查设置的改动（以现在的内容为准）。"
    ),
    "Only show the changes that wait for you.": "只显示等待您过目的改动。",
    "Blocked: end the job. --keep brings what was done so far into your files, unverified.": (
        "已阻塞：结束任务。--keep 把已做的改动带入您的文件，未经验证。"
    ),
    "Keep what was done, although nothing vouches for it.": "保留已做的改动，尽管没有任何证据为它担保。",
    "taken back: {count} files": "已撤回：{count} 个文件",
    "  left, because you changed them since: {names}": "  保持原样，因为您后来改过：{names}",
    "let the job use more": "放宽预算",
    "put everything back and end the job": "全部还原并结束任务",
}
