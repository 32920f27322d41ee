"""What starts runs when nobody does: triggers that are armed, what they have started, and who drives them."""

from detent.host.housekeeping import TRIGGER_NAME, TRIGGERS_ID

REGISTRY_ID = TRIGGERS_ID
NAME = TRIGGER_NAME  # the name of every trigger's machine
OWN_NAMES = (REGISTRY_ID, NAME)
