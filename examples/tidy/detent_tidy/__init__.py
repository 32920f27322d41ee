"""The agent `tidy`: finds old files in a folder, asks, and removes them. This module only names its parts."""

from detent.kit.agent import Agent

TIDY = Agent(
    name="tidy",
    about="Finds old files in a folder, asks, and removes them.",
    machines="detent_tidy.machine:MACHINES",
    effects="detent_tidy.effects:open_effects",
    projection="detent_tidy.projection:Sheet",
    commands={"tidy": "Find old files in a folder, and remove them once you agree."},
    program="detent_tidy.command:COMMANDS",
    manner="detent_tidy.command:MANNER",
    routes="detent_tidy.routes:ROUTES",
    view="detent_tidy:view.js",
    words="detent_tidy.words:CHINESE",
)
