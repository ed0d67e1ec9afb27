"""The agent kit: skills and blocks of the same texts, short enough, and ``fleet agents-md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.cli.exits import Exit
from coordinator.prompts import PROMPTS, instructions
from coordinator.prompts.kit import ROLES, Role, block, placed, skill, text
from coordinator.toolsets.registry import described_toolsets
from tests.support.fleets import ROOT

MOST_TOKENS = 1500
"""A token is four bytes here."""
EVERY = pytest.mark.parametrize("role", [pytest.param(role, id=name) for name, role in ROLES.items()])
TOOLSETS = described_toolsets()


@EVERY
def test_the_files_are_those_of_the_source(role: Role) -> None:
    file = ROOT / "config" / "agents" / "skills" / f"fleet-{role.name}" / "SKILL.md"
    assert file.read_text(encoding="utf-8") == skill(role), f"fleet agents-md {role.name} --skill > {file}"


@EVERY
def test_a_text_is_short_and_names_the_tools_that_there_are(role: Role) -> None:
    for made in (skill(role), block(role), text(role)):
        assert len(made.encode()) / 4 <= MOST_TOKENS
    tools = {tool.name for tool in TOOLSETS[role.toolset].tools}
    assert set(re.findall(r"```([a-z_]+)\n", text(role))) <= tools
    assert tools & set(re.findall(r"\w+", role.description))
    head = skill(role).split("---\n")[1]
    assert re.fullmatch(r"name: fleet-[a-z]+\ndescription: .{40,1024}\n", head), "as hosts read it"


def test_the_worker_is_told_the_same_by_prompt_server_and_skill() -> None:
    told = PROMPTS["work"].text({"worker"}, {}, {})
    assert told.strip() in skill(ROLES["worker"])
    assert TOOLSETS["worker"].instructions == instructions("worker")
    names = {tool.name for tool in TOOLSETS["worker"].tools}
    assert names == set(re.findall(r"work_\w+", told)) == set(re.findall(r"work_\w+", instructions("worker")))
    # Where the toolset items is served, too, its way of working is told.
    assert "claim_item" in PROMPTS["work"].text({"items", "worker"}, {}, {})


def test_a_block_is_renewed_in_its_place() -> None:
    worker, other = ROLES["worker"], ROLES["orchestrator"]
    document = placed(worker, "# Rules\n\nBe kind.\n")
    assert document.startswith("# Rules\n\nBe kind.\n\n<!-- fleet worker: begin -->\n")
    both = placed(other, document)
    older = both.replace("You are a worker of a fleet.", "You are old.") + "\nThe end.\n"
    renewed = placed(worker, older)
    assert renewed == both + "\nThe end.\n"
    assert placed(worker, placed(other, renewed)) == renewed
    assert placed(worker, "") == block(worker)
    for damaged in (
        document.replace("<!-- fleet worker: end -->", ""),
        document + document,
        "<!-- fleet worker: end -->\n<!-- fleet worker: begin -->\n",
    ):
        with pytest.raises(ValueError, match="exactly one pair"):
            placed(worker, damaged)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.run(["agents-md", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    assert run() == run("worker") == (Exit.OK, block(ROLES["worker"]), "")
    assert run("orchestrator", "--skill") == (Exit.OK, skill(ROLES["orchestrator"]), "")
    file = tmp_path / "AGENTS.md"
    assert run("--file", str(file)) == (Exit.OK, f"{file}: written\n", "")
    file.write_text("Mine.\n" + file.read_text())
    assert run("--file", str(file)) == (Exit.OK, f"{file}: unchanged\n", "")
    assert run("orchestrator", "--file", str(file))[1] == f"{file}: has the block\n"
    assert file.read_text().startswith("Mine.\n<!-- fleet worker: begin -->")
    file.write_text("<!-- fleet worker: begin -->\n")
    code, _, problem = run("--file", str(file))
    assert (code, "exactly one pair of the marks" in problem) == (Exit.FAILED, True)
    assert file.read_text() == "<!-- fleet worker: begin -->\n", "it is left as it is"
    assert run("--file", str(tmp_path / "no" / "such"))[0] == Exit.FAILED
    assert run("--skill", "--file", str(file))[0] == Exit.USAGE
    assert run("boss")[0] == Exit.USAGE
