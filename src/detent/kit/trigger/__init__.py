"""What starts runs when nobody does: triggers that are armed, what they have started, and who drives them."""

REGISTRY_ID = "detent_triggers"
NAME = "detent_trigger"  # the name of every trigger's machine
OWN_NAMES = (REGISTRY_ID, NAME, "detent_group")  # machines that lists of runs leave out
