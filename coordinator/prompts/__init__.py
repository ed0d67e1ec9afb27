"""Instructions for agents: how to work with the tools of the toolsets that a front-end serves.

Each text is one Markdown file beside this one, with its name, title and description at the top. MCP prompts are made of
them (``coordinator.transport.mcp.prompts``), the ``instructions`` of servers (a line at the top) and the agent kit
(``kit``). A text holds for every front-end; parts of it are for some only:

    <!-- if flows -->           the toolset flows is served, and the caller may use it
    <!-- if not item -->        the argument item was not given
    <!-- if identified -->      the caller is identified by a credential, so it names no actor
    <!-- end -->

``{{item}}`` is the value of an argument. Examples of calls are code blocks whose language is the tool; what an agent
has to fill in is in angle brackets. Tools have the names of their contracts, or those under which the front-end
publishes them.
"""

from coordinator.prompts.texts import ARGUMENTS, PROMPTS, Argument, Prompt, instructions

__all__ = ["ARGUMENTS", "PROMPTS", "Argument", "Prompt", "instructions"]
