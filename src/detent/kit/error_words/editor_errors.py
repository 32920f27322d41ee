"""Of workflow files that are edited on the page."""

CHINESE = {
    "{} is not in the project {}; call `detent edit` in the folder it belongs to": "{0} 不在项目 {1} 中；请在它所属的文件夹里调用 `detent edit`",
    "`{}` is in detent's home, where nothing is edited": "`{0}` 在 detent 的主目录中，那里的内容不能编辑",
    "`{}` is not a file that can be edited: give its path from the project's folder": "`{0}` 不是可以编辑的文件：请用从项目文件夹出发的路径指明",
    "`{}` is not a workflow file; those end in {}": "`{0}` 不是工作流文件；工作流文件以 {1} 结尾",
    "there is no file `{}` in this project, or it is a link; open the file that the link leads to": "本项目中没有文件 `{0}`，或者它是链接；请打开链接所指的文件",
    "`{}` cannot be read: {}": "`{0}` 无法读取：{1}",
    "`{}` is not a plain file": "`{0}` 不是普通文件",
    "`{}` cannot be edited: {}": "`{0}` 无法编辑：{1}",
    "`{}` is not a workflow file: no line of it begins with `states:` or `steps:`": "`{0}` 不是工作流文件：没有任何一行以 `states:` 或 `steps:` 开头",
    "the text holds half a character, which cannot be saved": "文本中含有半个字符，无法保存",
    "`{}` has been changed since you opened it; nothing was saved": "`{0}` 在你打开之后被改动过；没有保存任何内容",
    "the file cannot be written: {}": "文件无法写入：{0}",
    "files are not edited here: detent.serve.yaml says `edit: false`": "这里不能编辑文件：detent.serve.yaml 写着 `edit: false`",
    "nothing that a step has started may edit files; a person has to, outside of it": "步骤启动的程序不能编辑文件；必须由人在步骤之外来做",
    "as long as nobody here says who is who, only the user who runs this server edits files": "只要这里没有说明谁是谁，就只有运行此服务器的用户可以编辑文件",
    "line {} of `{}` holds what looks like a secret; name the variable that holds it instead": "`{1}` 的第 {0} 行含有疑似机密的内容；请改为写出保存它的变量名",
    "the text holds {}, which stands for a secret that is not shown; leave that part out": "文本中含有 {0}，它代表未显示的机密；请略去那部分",
}
