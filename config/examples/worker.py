"""A worker: counts the words of texts, and adds counts up. It works until it is stopped, two jobs side by side."""

from coordinator.client import SyncFleet


def handle(job):
    """One item: its tags say what to do; whatever is raised here makes it a failed attempt."""
    if "add" in job.item["tags"]:
        counts = [earlier["result"]["words"] for earlier in job.results]
        job.done({"words": sum(counts)}, summary=f"{len(counts)} counts added up")
    elif not job.description:
        job.ask("Which text? Please write it into the answer.")
    else:
        words = job.description.split()
        job.note("longest", max(words, key=len))
        job.done({"words": len(words)})


if __name__ == "__main__":
    with SyncFleet(slots=2) as fleet:
        fleet.work(handle, tags="count,add")
