"""Sentences about backups, restores, moves and anchors."""

CHINESE: dict[str, str] = {
    "Copy the home into one file, while runs go on, and check the copy.": (
        "把主目录备份成一个文件（运行照常进行），并检查副本。"
    ),
    "Replace the home with a backup; after that, nothing is repeated without asking.": (
        "把备份放回主目录的位置；此后不会悄悄重做任何事。"
    ),
    "Move the home to another folder.": "把主目录移到另一个文件夹。",
    "Publish one digest over all runs, so that a deletion is noticed.": "发布覆盖所有运行的一个摘要，使删除能被发现。",
    "Replace an existing file.": "替换已有的文件。",
    "If FILE is a folder: keep only this many backups in it.": "若 FILE 是文件夹：其中只保留这么多个备份。",
    "--keep needs a folder; {file} is not one": "--keep 要与文件夹一起用；{file} 不是文件夹",
    "{file}: {runs} runs, {events} events, {size} kB; hashes and claims checked": (
        "{file}：{runs} 个运行，{events} 个事件，{size} kB；哈希与占用记录均已检查"
    ),
    "not in it: {names}": "未包含：{names}",
    "removed: {file}": "已删除：{file}",
    "Replace an existing journal; the old one is kept aside.": "取代已有的日志；原日志会保留在一旁。",
    "Stop asking about calls that the backup could not know of.": "不再询问备份无从知道的调用。",
    "say either the FILE to restore, or --close-gap": "请给出要恢复的 FILE，或 --close-gap",
    "{home}: restored as of {clock}, {runs} runs, epoch {epoch}": (
        "{home}：已恢复到 {clock}，{runs} 个运行，第 {epoch} 纪元"
    ),
    "what was here is kept in {folder}": "原来的内容保留在 {folder}",
    "What was done between {since} and {until} is not in this journal; {count} runs were live.": (
        "{since} 到 {until} 之间所做的事不在这份日志里；当时有 {count} 个运行未结束。"
    ),
    "So irreversible calls that it does not know are asked about. When everything was looked into:": (
        "因此，凡日志不知道的不可逆调用都会先询问。全部查清之后："
    ),
    "the same journal is also in {home}; use only one of them": "同一份日志也在 {home}；请只使用其中之一",
    "closed; new calls are made without that question, open questions stay": (
        "已关闭；新的调用不再这样询问，已提出的问题保留"
    ),
    "there is no gap: this journal was not restored, or that is closed already": (
        "没有缺口：这份日志没有恢复过，或缺口已关闭"
    ),
    "The new folder; it must be new or empty.": "主目录的新位置；须是新的或空的文件夹。",
    "moved to {home}; give --home or DETENT_HOME from now on": "已移到 {home}；今后请给出 --home 或 DETENT_HOME",
    "Where the anchor is kept.": "锚点保存在哪里。",
    "Sign it with this SSH key.": "用这把 SSH 密钥签名。",
    "{head}: {runs} runs and {claims} claims, kept in {place}": (
        "{head}：{runs} 个运行，{claims} 个占用，保存在 {place}"
    ),
    "journal {journal}, epoch {epoch}: {runs} runs, {events} events": (
        "日志 {journal}，第 {epoch} 纪元：{runs} 个运行，{events} 个事件"
    ),
    "{count} claims": "{count} 个占用",
    "anchor of {clock}: {problem}": "{clock} 的锚点：{problem}",
    "anchor of {clock}: all {count} runs are as they were, or have grown": (
        "{clock} 的锚点：全部 {count} 个运行与当时一致，或只有增加"
    ),
    "; {count} were pruned since, on record": "；其后有 {count} 个已清理，有记录",
    "; signed by {name}": "；由 {name} 签名",
    "Print one digest over all runs, claims and people.": "打印覆盖所有运行、占用与人员的一个摘要。",
    "With --verify: against what was anchored there.": "与 --verify 一起用：对照那里的锚点。",
    "With --verify: who may have signed, as an allowed_signers file; else the keys the journal knows.": (
        "与 --verify 一起：谁可以签名，allowed_signers 格式的文件；否则用日志所知道的密钥。"
    ),
    "--head goes alone; --anchor goes with --verify, and is about every run": (
        "--head 单独使用；--anchor 与 --verify 一起用，针对所有运行"
    ),
    "--signers goes with --verify": "--signers 要与 --verify 一起用",
    "Write a backup into this folder at regular intervals.": "定期把备份写入这个文件夹。",
    "With --backup: how often, like 1h (the default).": "与 --backup 一起用：间隔，如 1h（默认）。",
    "With --backup: how many are kept; 24 by default.": "与 --backup 一起用：保留多少个；默认 24。",
    "perhaps done between {since} and {until}; run {run_id} has the restore on record": (
        "可能在 {since} 到 {until} 之间做过；恢复记录在运行 {run_id}"
    ),
    "do it:": "执行：",
    "restored (epoch {epoch}): what was done between {since} and {until} is not in it, and calls are asked about; "
    "`detent restore --close-gap` ends that": (
        "已恢复（第 {epoch} 纪元）：{since} 到 {until} 之间所做的事不在其中，调用会先询问；"
        "`detent restore --close-gap` 结束询问"
    ),
}
