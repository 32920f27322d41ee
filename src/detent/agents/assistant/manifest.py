"""The assistant's parts, named and not imported."""

from detent.kit.agent import Agent

AGENT = Agent(
    name="assistant",
    about="A conversation whose tool calls are contracts, and its memory.",
    machines="detent.agents.assistant.machine:MACHINES",
    effects="detent.agents.assistant.conversation:open_effects",
    projection="detent.agents.assistant.execution:Ledger",
    commands={"chat": "Chat with the assistant; it asks before anything irreversible."},
    program="detent.agents.assistant.commands.chat:COMMANDS",
    manner="detent.agents.assistant.commands.manner:MANNER",
    routes="detent.agents.assistant.routes.table:ROUTES",
    view="chat",
    words="detent.agents.assistant.words:CHINESE",
)
