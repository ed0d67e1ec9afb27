"""Pages of values that are too large for the context of an instance (workflow.get with result)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure, invalid, that_exist
from coordinator.steps.results import cut_of
from coordinator.toolsets import pages
from coordinator.toolsets.gateway.contract.workflow import Get, ResultPage
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.results import MAX_KEPT, MOST_KEPT, KeptValue, page
from coordinator.toolsets.gateway.snapshot import Snapshot
from coordinator.toolsets.gateway.tools.answers import rejected
from coordinator.toolsets.gateway.tools.backend import Backend
from coordinator.toolsets.tool import Call, Reply

ROUNDS = 5
"""How often a value is read that is replaced meanwhile."""
_SHOWN = 200
"""The most characters of an unknown key that a message quotes."""
_decode = msgspec.json.decode


async def result_page(backend: Backend, call: Call, args: Get) -> Reply:
    """A page of the value that ``args.result`` names; with the first one come its images and sounds.

    Raises:
        ToolFailure: VALIDATION_ERROR, naming the argument and what is allowed; ``conflict``.
    """
    if args.result is None:
        raise invalid("offset", "needs result")
    if args.wait_ms is not None or args.wait_for is not None or args.after is not None:
        raise invalid("result", "goes without waitFor, waitMs and after")
    offset, store = args.offset or 0, backend.instances
    for _ in range(ROUNDS):
        try:
            snapshot = await backend.operations.get(call.project, args.workflow_id)
        except Rejected as refused:
            return rejected(refused, Principal.of(call.caller), backend.links)
        value, where = _kept(snapshot, args.result), (call.project, args.workflow_id, snapshot.instance)
        if offset >= value.text:
            raise invalid("offset", f"must be less than {value.text}, the bytes of this text")
        data = await store.result(*where, value, offset, min(pages.ANSWER_CHARS, value.text - offset))
        media = await store.result(*where, value, value.text, value.media) if value.media and not offset else b"[]"
        if data is not None and media is not None:
            return _shown(backend, args.workflow_id, value, offset, data, media)
    raise ToolFailure("conflict", "other calls keep replacing the result; repeat the call", retry_after_ms=200)


def _kept(snapshot: Snapshot, key: str) -> KeptValue:
    kept = {value.key: value for value in snapshot.kept}
    if key in kept:
        return kept[key]
    context = _decode(snapshot.instance.context)
    cut = cut_of(context.get(key))
    if key not in context:
        why = f"the context has no {key[:_SHOWN]!r}"
    elif cut is None:
        why = f"{key!r} is not cut: the context has all of it"
    elif not cut.kept:
        why = f"{key!r} had {cut.bytes} bytes; of more than {MAX_KEPT} only the beginning in the context is kept"
    else:
        why = f"{key!r} is not kept any more; only its beginning in the context is (the last {MOST_KEPT} are kept)"
    raise invalid("result", why + that_exist(key, kept))


def _shown(backend: Backend, workflow: str, value: KeptValue, offset: int, data: bytes, media: bytes) -> Reply:
    begun, text = page(data, pages.ANSWER_CHARS)
    offset += begun
    end = offset + len(text.encode())
    more = [backend.links.result(workflow, value.key, end)] if end < value.text else []
    body = ResultPage(
        workflow_id=workflow,
        result=value.key,
        version=value.version,
        offset=offset,
        total=value.text,
        text=text,
        next_offset=end if more else UNSET,
        links=[*more, backend.links.myself(workflow)],
    )
    return Reply(structured=body, blocks=_decode(media))
