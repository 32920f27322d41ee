"""Housekeeping: the runs in which detent records its own work. They are no work of anybody's, so lists leave them out.

A machine that an author happens to call `anchored` is none of them: those two are known by their digest.
"""

from detent.core.machine import Machine
from detent.host.people import RECORD_ID

ANCHORED = Machine(name="anchored", initial="done", ends={"done": "completed"}, title="What the journal held")
PRUNED = Machine(name="pruned", initial="done", ends={"done": "completed"}, title="Runs that were forgotten")
WEBHOOK_NAME, NOTICE_NAME = "detent_webhook", "detent_notice"
TRIGGERS_ID, TRIGGER_NAME, GROUP_NAME = "detent_triggers", "detent_trigger", "detent_group"
FILES_ID, PACE_NAME = "detent_files", "detent_pace"
RECORDS = (RECORD_ID, WEBHOOK_NAME, NOTICE_NAME, TRIGGERS_ID, TRIGGER_NAME, GROUP_NAME, FILES_ID, PACE_NAME)
HOUSEKEEPING = (*RECORDS, ANCHORED.digest, PRUNED.digest)  # for `Query.without`
