"""``fleet demo``: many MCP clients drain a real tree of work, and the history proves how.

    graph, files    where the work comes from: real dependency graphs of Python distributions
    work, build     the plan that is made of one, and how it is put into a fleet
    calls, pacing   one MCP client that goes on through failures, and how many of them share a process
    agent           what an agent does with it
    agent_process, agent_processes
                    one process full of agents, and all of them as the demo sees them
    fleet, tied     the fleet that is worked on, maybe one of the demo's own; killing its front-ends
    history, proof  the recorded events, and the audit of them
    board, watch    what is shown meanwhile
    report          what is told in the end

The agents' word counts for nothing in the audit, but for one thing: which of them crashed.
"""
