"""The agents that come with detent, each as one value that names its parts; knowing them imports nothing of them."""

from detent.kit.agent import Agent

NOTEBOOK = Agent(
    name="notebook",
    about="Notebooks made by a planner, a generator and a kernel.",
    machines="detent.agents.notebook.machine:MACHINES",
    effects="detent.agents.notebook.service:open_effects",
    is_local=True,
    projection="detent.agents.notebook.notebook_state:Book",
    commands={"notebook": "Build a notebook from a goal, a script or a planner."},
    program="detent.agents.notebook.commands.notebook:COMMANDS",
    manner="detent.agents.notebook.commands.notebook_wording:MANNER",
    view="notebook",
    words="detent.agents.notebook.words:CHINESE",
    errors="detent.agents.notebook.error_words:CHINESE",
    documents="detent.agents.notebook.notebook_document:DOCUMENTS",
)

CODING = Agent(
    name="coding",
    about="From a requirement to a verified change in a git repository.",
    machines="detent.agents.coding.machine:MACHINES",
    effects="detent.agents.coding.effects:open_effects",
    is_local=True,
    commands={"code": "Turn a requirement into a verified change in a git repository."},
    program="detent.agents.coding.commands.code:COMMANDS",
    manner="detent.agents.coding.commands.job_wording:MANNER",
    routes="detent.agents.coding.routes:ROUTES",
    view="coding",
    words="detent.agents.coding.words:CHINESE",
    errors="detent.agents.coding.error_words:CHINESE",
)

ASSISTANT = Agent(
    name="assistant",
    about="A conversation whose tool calls are contracts, and its memory.",
    machines="detent.agents.assistant.machine:MACHINES",
    effects="detent.agents.assistant.conversation:open_effects",
    is_local=True,
    projection="detent.agents.assistant.execution_ledger:Ledger",
    commands={"chat": "Chat with the assistant; it asks before anything irreversible."},
    program="detent.agents.assistant.commands.chat:COMMANDS",
    manner="detent.agents.assistant.commands.turn_wording:MANNER",
    routes="detent.agents.assistant.routes.table:ROUTES",
    view="chat",
    words="detent.agents.assistant.words:CHINESE",
    errors="detent.agents.assistant.error_words:CHINESE",
)
