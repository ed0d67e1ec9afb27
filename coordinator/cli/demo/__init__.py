"""``fleet demo``: many MCP clients drain a real tree of work.

    graph, files    where the work comes from: real dependency graphs of Python distributions
    work, build     the plan that is made of one, and how it is put into a fleet
    calls, pacing   one MCP client that goes on through failures, and how many of them share a process
    agent           what an agent does with it
    agent_process, agent_processes
                    one process full of agents, and all of them as the demo sees them
    fleet, tied     the fleet that is worked on, maybe one of the demo's own; killing its front-ends
    history, board, watch
                    what happens, from the recorded events, as it is shown meanwhile
    report          what is told in the end

In the end ``coordinator.toolsets.items.audit`` recounts the project. The proof that a whole history keeps all promises
is with the tests (``tests/support/proof.py``).
"""
