"""Chinese sentences of `detent edit`."""

CHINESE: dict[str, str] = {
    "Edit a workflow file in the browser, with its picture, problems and cases beside it.": (
        "在浏览器中编辑工作流文件，旁边显示其图、问题和用例。"
    ),
    "The port of a server that is started; by default the first free one from {port} on.": (
        "所启动服务器的端口；默认为从 {port} 起第一个空闲端口。"
    ),
    "Print the link instead of opening a browser.": "只打印链接，不打开浏览器。",
    "The editor is at {address}": "编辑器在 {address}",
    "The server of this project shows it:": "本项目的服务器会显示它：",
}
