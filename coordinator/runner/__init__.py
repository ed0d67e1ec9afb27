"""Runs a command for each work item: ``fleet run``.

An *attempt* is one run of the command for one claimed item. ``loop`` claims items and gives each a slot; ``stages``
takes one through workspace, prompt, command, commit, verification and outcome. The command runs below a
process that ends everything it has started, whatever dies (``supervision``). ``reports`` tells the fleet what came of
it. ``presets`` has what is special about each agent's command line, as tables; ``protocols`` what workspaces and
readers of event streams are to the rest. ``recording`` says where its metrics are.

It speaks to the fleet through ``coordinator.client`` only, so it runs on any machine that reaches a front-end.
"""
