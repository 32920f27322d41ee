"""An approval workflow, built in Python: two states of work, a question, two ends."""

from detent import Action, Contract, Machine, Outcome, Question, effect, table


@effect("validate", kind="pure")
async def validate(contract: Contract) -> Outcome:
    """Look at the input."""
    return Outcome({"success": bool(contract.input["valid"])})


@effect("apply_changes", settle_s=0)  # not declared harmless: done at most once
async def apply_changes(contract: Contract) -> Outcome:
    """Pretend to change something."""
    return Outcome({"output": f"applied to {contract.input['target']}"})


REVIEW = Machine(
    name="review",
    initial="submitted",
    transitions=table("""
        submitted  -                   reviewing  if result.validate_input.success
        submitted  -                   rejected
        reviewing  -                   approved   if context.approved
        reviewing  !approval_rejected  rejected
    """),
    work={
        "submitted": [Action("validate_input", "validate", {"valid": "{{ context.valid }}"})],
        "reviewing": [Action("apply_changes", "apply_changes", {"target": "production"}, ask=Question("Apply it?"))],
    },
    ends={"approved": "completed", "rejected": "completed"},
)
EFFECTS = [validate, apply_changes]
