"""What work demands and uses, and how much of that there is."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Panel, most, rate, share

CLAIMS = "coordinator_claims_total"


USAGE = Dashboard(
    "fleet-usage",
    "Fleet: resources, usage and budgets",
    (
        (
            "Resources",
            (
                Panel(
                    "Held",
                    "Units that exclusive claims hold, as a share of the capacity, in the project that holds most.",
                    "percentunit",
                    [
                        (
                            share(
                                most("coordinator_resource_held", "resource", mode="exclusive"),
                                most("coordinator_resource_capacity", "resource"),
                            ),
                            "{{resource}}",
                        )
                    ],
                    "ResourceBusy",
                ),
                Panel(
                    "Shared claims",
                    "They take no units, and exclude exclusive claims of the key.",
                    "short",
                    [(most("coordinator_resource_held", "resource", mode="shared"), "{{resource}}")],
                    "ResourceBusy",
                ),
                Panel(
                    "Waiting items",
                    "Ready items that demand more of a resource than is free.",
                    "short",
                    [(most("coordinator_resource_waiting_items", "resource"), "{{resource}}")],
                    "ResourceBusy",
                ),
                Panel(
                    "Longest wait",
                    "For how long callers have passed over items for want of a resource, without one being claimed.",
                    "s",
                    [(most("coordinator_resource_wait_seconds", "resource"), "{{resource}}")],
                    "ResourceBusy",
                ),
                Panel(
                    "Reservations",
                    "Items passed over for long, for which a resource is kept from all others.",
                    "short",
                    [(most("coordinator_resource_reservations", "resource"), "{{resource}}")],
                    "ResourceBusy",
                ),
                Panel(
                    "Units of the minute",
                    "Units of resources with perMinute that claims can take at once.",
                    "short",
                    [(most("coordinator_resource_minute_units_left", "resource"), "{{resource}}")],
                    "ResourceBusy",
                ),
                Panel(
                    "Refused claims",
                    "Claims by id of items whose resources are busy, and claims against a spent budget, per second.",
                    "reqps",
                    [
                        (rate(CLAIMS, outcome="resource_busy"), "resource_busy"),
                        (rate(CLAIMS, outcome="budget_exhausted"), "budget_exhausted"),
                    ],
                    "ResourceBusy",
                ),
            ),
        ),
        (
            "Usage",
            (
                Panel(
                    "Tokens by project",
                    "Reported since the project began: input, output, and cached ones, which are a part of the input.",
                    "short",
                    [(most("coordinator_usage_tokens", "project, kind"), "{{project}} {{kind}}")],
                    "BudgetSpent",
                ),
                Panel(
                    "Cost by project",
                    "Reported since the project began.",
                    "currencyUSD",
                    [(f"{most('coordinator_usage_cost_micro_usd', 'project')} / 1e6", "{{project}}")],
                    "BudgetSpent",
                ),
                Panel(
                    "Time of work by project",
                    "Reported since the project began.",
                    "s",
                    [(most("coordinator_usage_seconds", "project"), "{{project}}")],
                    "BudgetSpent",
                ),
                Panel(
                    "Tokens today",
                    "Input and output of all projects, since midnight UTC.",
                    "short",
                    [(most("coordinator_usage_today_tokens"), "tokens")],
                    "BudgetSpent",
                    "stat",
                ),
                Panel(
                    "Cost today",
                    "Of all projects, since midnight UTC.",
                    "currencyUSD",
                    [(f"{most('coordinator_usage_today_cost_micro_usd')} / 1e6", "cost")],
                    "BudgetSpent",
                    "stat",
                ),
            ),
        ),
        (
            "Budgets",
            (
                Panel(
                    "Budgets of projects",
                    "The spent share, of the limit nearest to be reached; from 100 % on, nothing is claimed.",
                    "percentunit",
                    [(most("coordinator_project_budget_spent_ratio", "project, period"), "{{project}} {{period}}")],
                    "BudgetSpent",
                ),
                Panel(
                    "Budgets of agents",
                    "The spent share of the agent that has used most, by the name of the budget in the settings.",
                    "percentunit",
                    [(most("coordinator_agent_budget_spent_ratio", "agents, period"), "{{agents}} {{period}}")],
                    "BudgetSpent",
                ),
                Panel(
                    "Spent budgets of items",
                    "Open items whose budget is spent: they and what is below them are not claimed.",
                    "short",
                    [(most("coordinator_spent_budgets"), "items")],
                    "BudgetSpent",
                ),
            ),
        ),
    ),
)
