"""Operations: what operators do, in the console and at the command line, and the log of it.

An operation is a function here (``flows``, ``claims``, ``drains``, ``approvals``): given an ``Operator``, who has a
store, a name and a reason, it checks what is asked for, does it, and says what came of it (``ActResult``), with the one
sentence that both ways show if it is refused. Repeated with the same request, it has no second effect; of two at the
same time one has it, and the other is told. What people change in the console by calling tools of agents is an act,
too (``calls``). ``in_progress`` is the work that a drain of processes waits for.

All go through ``record`` (``log``), which keeps who acts, what, why and with which outcome. ``AuditLog`` is the only
reader: of ``fleet audit-log tail`` and of the console's page System. Neither knows how the store keeps the records.

A new operation is a function in the module of its subject. What only one way has, such as pausing a webhook or copying
a project, can stay there, and calls ``record``.
"""

from coordinator.operations.log import Act, ActRecord, ActResult, AuditLog, outcome_of, record
from coordinator.operations.operator import MAX_REASON, Operator, given_reason

__all__ = [
    "MAX_REASON", "Act", "ActRecord", "ActResult", "AuditLog", "Operator", "given_reason", "outcome_of", "record",
]  # fmt: skip
