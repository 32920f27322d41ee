"""One line per command, known without importing it."""

from detent.kit.language import _


def summaries() -> dict[str, str]:
    """One line per command, known without importing it."""
    return {
        "init": _("Create a workflow from a template, with test cases."),
        "import": _("Translate a state machine of Amazon States Language into a workflow file."),
        "run": _("Start a run and stay with it until it ends or waits."),
        "validate": _("Check a definition file, without running it."),
        "explain": _("Tell a definition in sentences, for whoever must agree to it."),
        "test": _("Run a workflow's test cases, with stubbed tools and virtual time."),
        "graph": _("Draw a machine, or a run with its path and current state."),
        "signal": _("Send a signal to a run."),
        "approve": _("Answer yes to a question."),
        "reject": _("Answer no to a question."),
        "answer": _("Fill in a form, or settle a call whose outcome is unknown."),
        "settle": _("List calls whose outcome is unknown, or settle many at once."),
        "cancel": _("Stop a run and everything it has under way."),
        "pause": _("Pause a run: calls under way finish, nothing new starts."),
        "resume": _("Continue after a crash, an interruption or a pause."),
        "retry": _("Continue a failed run from the action that failed."),
        "fork": _("Start a new run from a past point of another."),
        "migrate": _("Move a waiting run to another machine."),
        "show": _("Show where a run stands."),
        "log": _("Show what happened in a run, event by event."),
        "list": _("List the runs, newest first."),
        "watch": _("Follow a run's events until it ends."),
        "audit": _("Show who allowed what, and what came of it."),
        "policy": _("Test a policy on past calls, or propose rules from past answers."),
        "trigger": _("Arm what starts runs by itself: schedules, hooks, files, other runs, signals."),
        "next": _("Show what the armed schedules start next."),
        "serve": _("Serve the web page and the API."),
        "schema": _("Print the JSON Schema of workflow files, policies or people files."),
        "mcp": _("Serve runs to MCP clients, or list MCP servers and their tools."),
        "people": _("Say who may do what here, and how each of them is recognised."),
        "prune": _("Delete old runs that protect no irreversible call."),
        "backup": _("Copy the home into one file, while runs go on, and check the copy."),
        "restore": _("Put a backup in the home's place; nothing is repeated silently after that."),
        "move": _("Move the home to another folder."),
        "anchor": _("Publish one digest over all runs, so that a deletion is noticed."),
        "doctor": _("Check this installation and its journal."),
        "completion": _("Print the completion script for a shell."),
        "version": _("Print the version."),
    }
