"""The keys of each type of state that are carried over, and why others are not."""

TYPES = ("Pass", "Task", "Choice", "Wait", "Succeed", "Fail", "Parallel", "Map")
SPLIT = ("Map", "Parallel")
ERRORS = {
    "States.ALL": "",
    "States.TaskFailed": "tool_failure",
    "States.Timeout": "timeout",
    "States.HeartbeatTimeout": "timeout",
    "States.Permissions": "tool_failure",
    "States.NoChoiceMatched": "no_transition",
    "States.BranchFailed": "branch_failed",
}
EVERYWHERE = {"Type", "Comment", "Next", "End", "InputPath", "OutputPath"}
CALLS = {"ResultPath", "ResultSelector", "Catch", "Parameters"}
KEYS = {
    "Pass": {"Result", "Parameters", "ResultPath"},
    "Task": CALLS | {"Resource", "Retry", "TimeoutSeconds"},
    "Choice": {"Choices", "Default"},
    "Wait": {"Seconds", "SecondsPath", "Timestamp", "TimestampPath"},
    "Succeed": set[str](),
    "Fail": {"Error", "Cause", "ErrorPath", "CausePath"},
    "Parallel": CALLS | {"Branches"},
    "Map": CALLS | {"ItemProcessor", "Iterator", "ItemsPath", "ItemSelector", "MaxConcurrency", "ToleratedFailureCount",
                    "Label"},
}  # fmt: skip
WHY = {
    "HeartbeatSeconds": "there is no heartbeat; `timeout` bounds the whole call",
    "HeartbeatSecondsPath": "there is no heartbeat; `timeout` bounds the whole call",
    "Credentials": "credentials are the tool's own business",
    "TimeoutSecondsPath": "a time-out must be known when the file is loaded",
    "ItemReader": "items are read from the document only",
    "ResultWriter": "results are written to the document only",
    "Retry": "only a task is tried again by itself; `detent retry` does what failed again",
}
