"""The content of the dashboards, from symptoms to causes; one module each.

Every panel has a unit, a description and a runbook.
"""

from deploy.grafana.boards.contention import CONTENTION
from deploy.grafana.boards.people import PEOPLE
from deploy.grafana.boards.service import SERVICE
from deploy.grafana.boards.store import STORE
from deploy.grafana.boards.usage import USAGE
from deploy.grafana.boards.workflows import WORKFLOWS

ALL = (SERVICE, CONTENTION, USAGE, STORE, WORKFLOWS, PEOPLE)
