"""A budget: mail when the stack's month costs more than was meant, or is going to."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from constructs import Construct

TAG = "crawler"
"""Every resource of a stack carries it, with the stack's name. A tag of our own, not `aws:cloudformation:stack-name`:
ECS hands it on from the service to the tasks, which cost the most, and tags that begin with `aws:` it does not.

Bills know a tag only after it was activated once in the account that pays, and from then on. Until that is done the
budget sees nothing at all:

    aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey=crawler,Status=Active
"""


class Budget(Construct):
    """`dollars` a month, told to `email`. What carries no tag is not in it: metrics, dashboard, alarms, traffic."""

    def __init__(self, scope: Construct, name: str, *, dollars: float, email: str, stack_name: str) -> None:
        super().__init__(scope, name)
        reader = budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=dollars, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{TAG}${stack_name}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind, comparison_operator="GREATER_THAN", threshold=100
                    ),
                    subscribers=[reader],
                )
                for kind in ("ACTUAL", "FORECASTED")
            ],
        )
