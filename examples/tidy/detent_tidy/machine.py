"""The machine: look, ask, remove. The question is about the very call that removes, with the list of files in it."""

from detent import Action, Machine, Question, table

TIDY = Machine(
    name="tidy",
    initial="looking",
    transitions=table("""
        looking   -                   removing  if result.look.files
        looking   -                   clean
        removing  -                   clean
        removing  !approval_rejected  kept
    """),
    work={
        "looking": [Action("look", "tidy.look", {"folder": "{{ context.folder }}", "days": "{{ context.days }}"})],
        "removing": [
            Action(
                "remove",
                "tidy.remove",
                {"folder": "{{ context.folder }}", "files": "{{ result.look.files }}"},
                ask=Question("Old files in {{ context.folder }}: {{ result.look.files | length }}. Remove them?"),
            )
        ],
    },
    ends={"clean": "completed", "kept": "rejected"},
    output={"removed": "{{ result.remove.removed }}", "changed": "{{ result.remove.changed }}"},
)
MACHINES = (TIDY,)
