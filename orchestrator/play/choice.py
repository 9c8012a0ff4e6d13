"""Which tasks of a playbook are run: by tags, from a task on, or one by one as somebody says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from orchestrator.errors import InputError, did_you_mean
from orchestrator.play.tasks import Play, Task

Ask = Callable[[str], str]  # "y", "n" or "c" (yes to this and all that follow)


@dataclass
class Choice:
    """`tags`, `skip_tags` and `start_at` as of ansible-playbook; `ask` is called for each task.

    A task with the tag `always` is also run when it stands before `start_at`, since later tasks
    may need what it finds out.
    """

    tags: frozenset[str] = frozenset({"all"})
    skip_tags: frozenset[str] = frozenset()
    start_at: str | None = None
    ask: Ask | None = None
    _started: bool = field(default=False, init=False)

    def check(self, plays: Sequence[Play]) -> None:
        """Raises InputError when no task is called as `start_at` says."""
        if self.start_at is None:
            return
        names = [task.name for play in plays for task in play.all_tasks()]
        if not any(fnmatchcase(name, self.start_at) for name in names):
            raise InputError(
                f"there is no task {self.start_at!r} to start at",
                hint=did_you_mean(self.start_at, names),
            )

    def wants(self, task: Task) -> bool:
        """Whether the tags and `start_at` are for `task`, which is the next one."""
        if self.start_at is not None and not self._started:
            self._started = fnmatchcase(task.name, self.start_at)
            if not self._started and "always" not in task.tags:
                return False
        return self.tagged(task)

    def confirmed(self, task: Task) -> bool:
        """Whether the person at the terminal wants `task`, if there is one to ask."""
        if self.ask is None:
            return True
        answer = self.ask(task.name)
        if answer == "c":
            self.ask = None
        return answer in ("y", "c")

    def tagged(self, task: Task) -> bool:
        """Ansible's rule: `always` unless it is skipped, `never` only when it is named."""
        tags = task.tags or frozenset({"untagged"})
        has_own = tags != {"untagged"} and "never" not in tags
        wanted = (
            "always" in tags
            or ("all" in self.tags and "never" not in tags)
            or bool(tags & self.tags)
            or ("tagged" in self.tags and has_own)
        )
        skipped = (
            ("all" in self.skip_tags and ("always" not in tags or "always" in self.skip_tags))
            or bool(tags & self.skip_tags)
            or ("tagged" in self.skip_tags and tags != {"untagged"})
        )
        return wanted and not skipped
