"""The notebook agent's parts, named and not imported."""

from detent.kit.agent import Agent

AGENT = Agent(
    name="notebook",
    about="Notebooks made by a planner, a generator and a kernel.",
    machines="detent.agents.notebook.machine:MACHINES",
    effects="detent.agents.notebook.service:open_effects",
    projection="detent.agents.notebook.book:Book",
    commands={"notebook": "Build a notebook from a goal, a script or a planner."},
    program="detent.agents.notebook.commands.notebook:COMMANDS",
    manner="detent.agents.notebook.commands.manner:MANNER",
    view="notebook",
    words="detent.agents.notebook.words:CHINESE",
)
