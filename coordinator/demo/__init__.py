"""``fleet demo``: many agents drain a real tree of work.

    source          where the work comes from: the Python distributions that are installed, or a plan in a file
    work            what is planned, as board and proof see it
    agents          the agents, each a worker as the client library makes it
    fleet           the fleet that is worked on, maybe one of the demo's own; killing its front-ends
    board           what happens, from the recorded events
    run, report     one run, and what is told in the end

In the end ``coordinator.toolsets.items.audit`` recounts the project. The proof that a whole history keeps all promises
is with the tests (``tests/support/proof.py``).
"""
