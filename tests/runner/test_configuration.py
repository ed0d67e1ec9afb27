"""The runner's git runs nothing that a command has configured, and all that was there before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from coordinator.cli.runners.flags import options_of
from coordinator.runner.workspaces import Repository, Worktrees
from tests.runner.repositories import Place, failure

pytestmark = pytest.mark.anyio
PROGRAMS = {
    "core.fsmonitor": "{}; false",
    "core.sshCommand": "{}",
    "core.gitProxy": "{}",
    "core.editor": "{}",
    "core.pager": "{}",
    "core.askPass": "{}",
    "core.alternateRefsCommand": "{}",
    "sequence.editor": "{}",
    "pager.commit": "{}",
    "pager.diff": "{}",
    "alias.commit": "!{}",
    "alias.add": "!{}",
    "commit.gpgSign": "true",
    "gpg.program": "{}",
    "gpg.ssh.program": "{}",
    "log.showSignature": "true",
    "credential.helper": "!{}",
    "diff.external": "{}",
    "diff.evil.command": "{}",
    "diff.evil.textconv": "{}",
    "merge.evil.driver": "{}",
    "filter.evil.clean": "{}; cat",
    "filter.evil.smudge": "{}; cat",
    "filter.long.process": "{}",
    "interactive.diffFilter": "{}",
    "trailer.fleet-item.command": "{}",
    "trailer.fleet-item.cmd": "{}",
    "uploadpack.packObjectsHook": "{}",
    "remote.origin.url": "ext::{}",
    "remote.origin.promisor": "true",
    "protocol.ext.allow": "always",
    "status.submoduleSummary": "true",
    "diff.ignoreSubmodules": "none",
    "submodule.recurse": "true",
    "submodule.lib.update": "!{}",
    "submodule.lib.ignore": "none",
}
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "reference-transaction"),
    *("pre-auto-gc", "post-rewrite", "post-index-change", "fsmonitor-watchman", "sendemail-validate"),
)


class Trap:
    """Programs that leave a mark when they are run."""

    def __init__(self, place: Place) -> None:
        self.place, self.marks = place, place.top / "marks"
        self.marks.mkdir()

    def settings(self) -> str:
        """All keys that run a program, as a file."""
        lines = []
        for key, value in PROGRAMS.items():
            section, _, rest = key.partition(".")
            within, _, name = rest.rpartition(".")
            text = value.format(f"touch {self.marks}/{key}").replace('"', '\\"')
            lines.append(f'[{section} "{within}"]\n' if within else f"[{section}]\n")
            lines.append(f'\t{name} = "{text}"\n')
        return "".join(lines)

    def hooks(self, where: Path) -> Path:
        where.mkdir(parents=True, exist_ok=True)
        for name in HOOKS:
            (where / name).write_text(f"#!/bin/sh\ntouch {self.marks}/hook-{name}\n")
            (where / name).chmod(0o755)
        return where

    def sprung(self) -> list[str]:
        """What has run; forgets it."""
        found = sorted(one.name for one in self.marks.iterdir())
        for one in self.marks.iterdir():
            one.unlink()
        return found


Spoil = Callable[[Trap, Path], object]


def append(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write(text)


def repository(trap: Trap, _: Path) -> None:
    append(trap.place.path / ".git/config", trap.settings())


def worktree(trap: Trap, path: Path) -> None:
    append(trap.place.repository().admin(path.name) / "config.worktree", trap.settings())


def included(trap: Trap, path: Path) -> None:
    append(path / "more", trap.settings())
    append(trap.place.path / ".git/config", f"[include]\n\tpath = {path}/more\n")


def included_if(trap: Trap, path: Path) -> None:
    append(path / "more", trap.settings())
    append(trap.place.path / ".git/config", f'[includeIf "onbranch:fleet-*"]\n\tpath = {path}/more\n')


def already_included(trap: Trap, path: Path) -> None:
    append(trap.place.top / "included", trap.settings())


def user(trap: Trap, _: Path) -> None:
    append(trap.place.top / ".gitconfig", trap.settings())


def user_below_config(trap: Trap, _: Path) -> None:
    append(trap.place.top / ".config/git/config", trap.settings())


def other_common_directory(trap: Trap, path: Path) -> None:
    evil = path / f"evil-{path.name}"
    trap.place.git("clone", "--quiet", "--bare", str(trap.place.path), str(evil), at=path)
    append(evil / "config", trap.settings())
    (trap.place.repository().admin(path.name) / "commondir").write_text(f"{evil}\n")


def hooks_of_the_repository(trap: Trap, _: Path) -> None:
    trap.hooks(trap.place.path / ".git/hooks")


def hooks_in_the_workspace(trap: Trap, path: Path) -> None:
    trap.hooks(path / ".githooks")
    trap.place.git("config", "core.hooksPath", ".githooks", at=path)


PLACES: dict[str, Spoil] = {
    "the repository's configuration": repository,
    "the worktree's configuration": worktree,
    "an include": included,
    "a conditional include": included_if,
    "a file that is included": already_included,
    "the user's configuration": user,
    "the user's configuration below .config": user_below_config,
    "another common directory": other_common_directory,
    "hooks": hooks_of_the_repository,
    "core.hooksPath": hooks_in_the_workspace,
}

RARE = {
    *("an include", "a conditional include", "a file that is included"),
    *("the worktree's configuration", "the user's configuration below .config", "core.hooksPath"),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (place.top / ".gitconfig").write_text(f"[include]\n\tpath = {place.top}/included\n")
    place.git("config", "extensions.worktreeConfig", "true")
    return place


@pytest.fixture
def trap(place: Place) -> Trap:
    return Trap(place)


async def live(place: Place, how: Worktrees, spoil: Callable[[Path], object]) -> list[str]:
    """Everything that becomes of worktrees: a commit, an attempt that died, the next one, salvage, the end."""
    said = []
    first = place.attempt()
    for label in ("1", "2"):
        made = await how.open(place.attempt(first.item_id, label))
        spoil(made.path)
        append(made.path / "new.txt", f"work {label}\n")
        try:
            await made.commit()
            made.changed(0)
        except Exception as error:
            said.append(str(error))
        append(made.path / "late.txt", "late\n")
        if label == "1":
            made.owned.end(gone=False)  # its runner died
        else:
            said.append(await made.close(done=True))
    for found in (place.collect(dry_run=True), place.collect(salvage=True), place.collect()):
        said += [one.reason for one in found.values()]
    return said


def some(cases: dict[str, Spoil], rare: set[str]) -> list[object]:
    return [pytest.param(one, marks=pytest.mark.chaos if one in rare else ()) for one in cases]


@pytest.mark.parametrize("case", some(PLACES, RARE))
async def test_nothing_runs_that_the_command_has_configured(place: Place, trap: Trap, case: str) -> None:
    def spoil(path: Path) -> None:
        append(path / ".gitattributes", "* filter=evil diff=evil merge=evil\n*.long filter=long\n")
        append(path / "x.long", "long\n")
        PLACES[case](trap, path)
        append(path / "README", "changed\n")
        place.git("add", "--all", at=path, fails=True)
        place.git("checkout", "--quiet", "--detach", at=path, fails=True)
        assert trap.sprung(), "git itself runs it"

    how = place.worktrees()
    await how.start()
    await live(place, how, spoil)
    assert trap.sprung() == []


def fresh_submodule(trap: Trap, path: Path) -> Path:
    """A submodule that the command brings, and where its repository is."""
    allow = ("-c", "protocol.file.allow=always")
    trap.place.git(*allow, "submodule", "--quiet", "add", str(trap.place.path), "lib", at=path)
    return Path(trap.place.git("rev-parse", "--absolute-git-dir", at=path / "lib"))


def submodule_settings(trap: Trap, path: Path) -> None:
    append(fresh_submodule(trap, path) / "config", trap.settings())


def submodule_worktree_settings(trap: Trap, path: Path) -> None:
    git_dir = fresh_submodule(trap, path)
    trap.place.git("config", "extensions.worktreeConfig", "true", at=path / "lib")
    append(git_dir / "config.worktree", trap.settings())


def submodule_include(trap: Trap, path: Path) -> None:
    append(path / "lib-more", trap.settings())
    append(fresh_submodule(trap, path) / "config", f"[include]\n\tpath = {path}/lib-more\n")


def submodule_elsewhere(trap: Trap, path: Path) -> None:
    git_dir = fresh_submodule(trap, path)
    git_dir.rename(path.parent / f"elsewhere-{path.name}")
    (path / "lib/.git").write_text(f"gitdir: {path.parent}/elsewhere-{path.name}\n")
    append(path.parent / f"elsewhere-{path.name}/config", f"[core]\n\tworktree = {path}/lib\n{trap.settings()}")


def submodule_with_its_own_directory(trap: Trap, path: Path) -> None:
    git_dir = fresh_submodule(trap, path)
    (path / "lib/.git").unlink()
    git_dir.rename(path / "lib/.git")
    append(path / "lib/.git/config", f"[core]\n\tworktree = ..\n{trap.settings()}")


def submodule_with_alternates(trap: Trap, path: Path) -> None:
    git_dir = fresh_submodule(trap, path)
    append(git_dir / "objects/info/alternates", f"{trap.place.path}/.git/objects\n")
    append(git_dir / "config", trap.settings())


def submodule_never_ignored(trap: Trap, path: Path) -> None:
    append(fresh_submodule(trap, path) / "config", trap.settings())
    trap.place.git("config", "--file", ".gitmodules", "submodule.lib.ignore", "none", at=path)


def nested_submodule(trap: Trap, path: Path) -> None:
    fresh_submodule(trap, path)
    append(fresh_submodule(trap, path / "lib") / "config", trap.settings())


SUBMODULES: dict[str, Spoil] = {
    "its configuration": submodule_settings,
    "its configuration for a worktree": submodule_worktree_settings,
    "an include": submodule_include,
    "a repository elsewhere": submodule_elsewhere,
    "a repository within": submodule_with_its_own_directory,
    "alternates": submodule_with_alternates,
    "ignore is none": submodule_never_ignored,
    "a nested one": nested_submodule,
}


RARELY_SO = {
    *("its configuration", "its configuration for a worktree", "an include", "alternates"),
    *("a repository elsewhere", "ignore is none"),
}


@pytest.mark.parametrize("case", some(SUBMODULES, RARELY_SO))
async def test_nothing_runs_that_is_configured_in_a_submodule(place: Place, trap: Trap, case: str) -> None:
    def spoil(path: Path) -> None:
        if (path / "lib").exists():  # what an earlier attempt has committed
            place.git("rm", "--quiet", "--force", "lib", at=path)
            place.git("rm", "--quiet", "--force", ".gitmodules", at=path)
            place.git("commit", "--quiet", "--message=removed", at=path)
        SUBMODULES[case](trap, path)
        inner = path / "lib/lib" if case == "a nested one" else path / "lib"
        append(inner / ".gitattributes", "* filter=evil diff=evil\n")
        append(inner / "README", "changed\n")
        trap.sprung()
        place.git("status", at=path, fails=True)
        assert trap.sprung(), "git itself runs it"

    how = place.worktrees()
    await how.start()
    said = await live(place, how, spoil)
    assert trap.sprung() == []
    assert any("the submodule lib has files that are in no commit" in one for one in said)


async def test_a_missing_object_is_not_fetched_by_what_the_command_has_configured(place: Place, trap: Trap) -> None:
    how = place.worktrees()
    await how.start()
    made = await how.open(place.attempt())
    repository(trap, made.path)
    append(place.path / ".git/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n")
    blob = place.git("rev-parse", "HEAD:README", at=made.path)
    (place.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    place.git("cat-file", "-p", blob, at=made.path, fails=True)
    assert trap.sprung()
    append(made.path / "README", "changed\n")
    assert await made.commit(), "it is wanted for a comparison alone"
    await made.close(done=True)
    assert trap.sprung() == []


async def test_the_next_runner_and_gc_use_on_a_worktree_what_it_was_made_with(place: Place, trap: Trap) -> None:
    made = await place.open()
    append(made.path / ".gitattributes", "* filter=evil\n")
    append(made.path / "new.txt", "work\n")
    repository(trap, made.path)
    trap.hooks(place.path / ".git/hooks")
    made.owned.end(gone=False)
    assert place.collect(dry_run=True)[made.branch].reason == "2 files are not committed: .gitattributes, new.txt"
    await place.worktrees().start()
    assert place.collect(salvage=True)[made.branch].removed
    assert trap.sprung() == []


# --- what was there before is used


async def test_drivers_that_were_there_work_for_attributes_that_the_command_writes(place: Place) -> None:
    place.git("config", "--global", "filter.upper.clean", "tr a-z A-Z")
    place.git("config", "filter.lower.clean", "tr A-Z a-z")
    made = await place.open()
    place.git("config", "--unset", "filter.lower.clean")
    place.git("config", "--global", "filter.upper.clean", "false")
    (made.path / ".gitattributes").write_text("*.up filter=upper\n*.low filter=lower\n")
    (made.path / "a.up").write_text("Text\n")
    (made.path / "a.low").write_text("Text\n")
    commit = await made.commit()
    assert place.git("show", f"{commit}:a.up") == "TEXT"
    assert place.git("show", f"{commit}:a.low") == "text"
    assert "removed" in await made.close(done=True)


@pytest.mark.parametrize("bare", [False, True])
async def test_a_driver_s_program_in_the_repository_is_that_of_the_main_worktree(place: Place, bare: bool) -> None:
    for name, command in (("a", "tools/clean.sh %f"), ("b", "sh tools/clean.sh"), ("c", "sed s/x/y/")):
        place.git("config", "--global", f"filter.{name}.clean", command)
    append(place.path / "tools/clean.sh", "#!/bin/sh\ntr a-z A-Z\n")
    (place.path / "tools/clean.sh").chmod(0o755)
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=tools")
    where = place.path
    if bare:
        where = place.top / "app.git"
        place.git("clone", "--quiet", "--bare", str(place.path), str(where))
    how = place.worktrees(repository=where)
    notices = await how.start()
    made = await how.open(place.attempt())
    append(made.path / "tools/clean.sh", f"touch {place.top}/ran\n")
    (made.path / ".gitattributes").write_text("*.a filter=a\n*.b filter=b\n*.c filter=c\n")
    for name in "abc":
        (made.path / f"new.{name}").write_text("xz\n")
    commit = await made.commit()
    shown = [place.git("show", f"{commit}:new.{name}", at=where) for name in "abc"]
    assert shown == (["xz", "xz", "yz"] if bare else ["XZ", "XZ", "yz"])
    assert not (place.top / "ran").exists()
    said = "filter.{}.clean is {}, a program that is found in worktrees only: it is not run"
    assert list(notices) == ([said.format("a", "tools/clean.sh %f"), said.format("b", "sh tools/clean.sh")] * bare)


async def test_hooks_are_those_that_were_there(place: Place) -> None:
    """Also what they call beside them, and links to files of the main worktree."""
    hooks = place.path / ".git/hooks"
    out = place.top / "said"
    append(place.path / "scripts/check.sh", f"#!/bin/sh\necho message >> {out}\n")
    append(hooks / "lib/all.sh", f"echo lib >> {out}\n")
    append(
        hooks / "pre-commit", '#!/bin/sh\n. "$(dirname "$0")/lib/all.sh"\ngit diff --cached --quiet && exit 1\nexit 0\n'
    )
    (hooks / "commit-msg").symlink_to("../../scripts/check.sh")
    for one in (hooks / "pre-commit", place.path / "scripts/check.sh"):
        one.chmod(0o755)
    made = await place.open()
    for one in (hooks / "pre-commit", hooks / "lib/all.sh", hooks / "commit-msg"):
        one.unlink()
    append(made.path / "new.txt", "work\n")
    assert await made.commit()
    assert out.read_text() == "lib\nmessage\n"


@pytest.mark.parametrize("where", [".githooks", ".husky/_", "~/hooks", "{top}/hooks", ".git/hooks", "{app}/.git/hooks"])
async def test_hooks_that_are_elsewhere_refuse(place: Place, where: str) -> None:
    where = where.format(top=place.top, app=place.path)
    hooks = place.path / where.replace("~", str(place.top))
    append(hooks / "pre-commit", "#!/bin/sh\necho no >&2\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    append(place.path / ".git/info/exclude", "/.githooks\n/.husky\n")
    place.git("config", "core.hooksPath", where)
    how = place.worktrees()
    assert await how.start() == ()
    made = await how.open(place.attempt())
    append(made.path / where / "pre-commit", "exit 0\n") if where.startswith((".githooks", ".husky")) else None
    append(made.path / "new.txt", "work\n")
    assert str(await failure(made.commit())) == "git commit ended with 1: no"


@pytest.mark.parametrize("where", [".githooks", "/nowhere", "{state}/worktrees/x", "", "/dev/null"])
async def test_hooks_that_are_only_in_workspaces_do_not_run_and_the_start_says_so(place: Place, where: str) -> None:
    where = where.format(state=place.state)
    place.git("config", "core.hooksPath", where)
    how = place.worktrees()
    lack = f"in {place.path}" if where == ".githooks" else "outside of worktrees"
    said = f"commits of the runner run no hooks: core.hooksPath is {where}, and there is no such directory {lack}"
    assert await how.start() == (() if where in ("", "/dev/null") else (said,))
    made = await how.open(place.attempt())
    append(made.path / ".githooks/pre-commit", "#!/bin/sh\nexit 1\n")
    (made.path / ".githooks/pre-commit").chmod(0o755)
    assert await made.commit()


async def test_relative_hooks_of_a_bare_repository_do_not_run(place: Place) -> None:
    bare = place.top / "app.git"
    place.git("clone", "--quiet", "--bare", str(place.path), str(bare))
    place.git("config", "core.hooksPath", ".githooks", at=bare)
    (notice,) = await place.worktrees(repository=bare).start()
    assert notice.endswith("core.hooksPath is .githooks, and there is no such directory outside of worktrees")


async def test_every_value_is_copied_as_it_is(place: Place) -> None:
    values = ["", " a  b ", 'q"u\\o', "a\nb", "\t", "#;", "ünï", "a\\\n", "x\r", "[y] = z", "'s'"]
    for number, value in enumerate(values):
        place.git("config", "--global", "--add", "values.many", value)
        place.git("config", f'odd."\\ ].{number}.{value.strip() or "e"}#.key'.replace("\n", ""), value)
    append(place.path / ".git/config", "[flags]\n\tset\n\tunset =\n")
    append(place.top / "included", "[flags]\n\tincluded = yes\n")
    git = place.repository().git
    for scope in ("--global", "--local"):
        there = place.git("config", scope, "--includes", "--list", "-z").split("\0")
        left = {"core.bare", "include.path", "extensions.worktreeconfig"}
        copied = git("config", scope, "--list", "-z").replace("\r", "\n").split("\0")  # as Place.git reads it
        assert copied == [one for one in there if one.split("\n")[0] not in left]
    assert git("config", "--bool", "flags.set") == "true"


async def test_settings_of_a_worktree_and_a_sparse_checkout_are_passed_on(place: Place) -> None:
    for name in ("in/a", "out/b"):
        append(place.path / name, "x\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=more")
    place.git("sparse-checkout", "set", "in")
    made = await place.open()
    assert (made.path / "in/a").exists()
    assert not (made.path / "out").exists()
    assert place.git("config", "core.sparseCheckout", at=made.path) == "true"
    append(made.path / "in/a", "more\n")
    commit = await made.commit()
    assert place.git("diff", "--name-only", "main", str(commit)) == "in/a"
    assert "removed" in await made.close(done=True)


async def test_a_pipe_in_the_place_of_a_record_holds_up_nothing(place: Place) -> None:
    made = await place.open()
    record = place.repository().admin(made.path.name) / "fleet.json"
    record.unlink()
    os.mkfifo(record)
    append(made.path / "new.txt", "work\n")
    assert await made.commit()
    with anyio.fail_after(30):
        assert await made.close(done=True)
    place.collect()


async def test_a_start_says_that_configuration_or_hooks_were_changed(place: Place) -> None:
    assert list(await place.worktrees().start()) == []
    assert list(await place.worktrees().start()) == []
    for change in (lambda: place.git("config", "core.pager", "less"), lambda: append(place.path / ".git/hooks/a", "")):
        change()
        (said,) = await place.worktrees().start()
        assert f"configuration or hooks in {place.path}/.git are others than those of the last runner" in said
        assert list(await place.worktrees().start()) == []


@pytest.mark.parametrize("before", ["", ".", "tools", "./node_modules/.bin"])
async def test_programs_and_libraries_are_not_found_in_workspaces(
    place: Place, trap: Trap, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    place.environment["PATH"] = f"{before}:{place.environment['PATH']}"
    place.environment["LD_LIBRARY_PATH"] = f"{before}:/opt/lib:"
    hook = place.path / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\necho $LD_LIBRARY_PATH > {place.top}/libraries\nid > {place.top}/id\n")
    hook.chmod(0o755)
    made = await place.open()
    for name in ("git", "id", "sh"):
        program = made.path / before / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\ntouch {trap.marks}/{name}\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    append(made.path / "new.txt", "work\n")
    assert await made.commit()
    await made.close(done=True)
    assert trap.sprung() == []
    assert (place.top / "libraries").read_text() == "/opt/lib\n"
    assert (place.top / "id").read_text()
    monkeypatch.setenv("PATH", place.environment["PATH"])
    found, *arguments = options_of(("id", "-u"), {}).command
    assert (Path(found).is_absolute(), Path(found).name, arguments) == (True, "id", ["-u"])


async def test_a_repository_with_other_hashes(tmp_path: Path) -> None:
    place = Place(tmp_path, new=False)
    place.path.mkdir()
    place.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    append(place.path / "README", "one\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=one")
    made = await place.open()
    append(made.path / "new.txt", "work\n")
    assert len(str(await made.commit())) == 64
    assert "removed" in await made.close(done=True)


async def test_copies_that_nothing_needs_are_deleted(place: Place) -> None:
    kept = await place.open()
    for number in "ab":
        place.git("config", "user.number", number)
        await place.worktrees().start()
    place.git("config", "user.number", "c")
    held = Repository(place.path, place.state, place.environment, renew=True)
    folder = held.configuration.path.parent
    assert len(list(folder.iterdir())) == 4
    (folder / "new-x").mkdir()
    for one in folder.iterdir():
        os.utime(one, (1, 1))
    await kept.close(done=False)
    again = await place.open()
    for one in folder.iterdir():
        os.utime(one, (1, 1))
    del kept
    held.prune()
    assert {one.name for one in folder.iterdir()} == {held.configuration.path.name}
    assert "removed" in await again.close(done=True)
