"""The coding agent's parts, named and not imported."""

from detent.kit.agent import Agent

AGENT = Agent(
    name="coding",
    about="From a requirement to a verified change in a git repository.",
    machines="detent.agents.coding.machine:MACHINES",
    effects="detent.agents.coding.effects:open_effects",
    commands={"code": "Turn a requirement into a verified change in a git repository."},
    program="detent.agents.coding.commands.code:COMMANDS",
    manner="detent.agents.coding.commands.manner:MANNER",
    routes="detent.agents.coding.routes:ROUTES",
    view="coding",
    words="detent.agents.coding.words:CHINESE",
)
