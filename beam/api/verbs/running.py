"""Methods for scenarios: read a scenario's file, check it, trust it, and run the scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from beam.api.both import coroutine_verb
from beam.api.verbs.opened import OpenedRoot
from beam.base.errors import UsageError
from beam.model.message import Recording

if TYPE_CHECKING:
    from beam.conversations.machine import PlanStep
    from beam.conversations.result import RunResult
    from beam.conversations.run_options import RunProgress
    from beam.conversations.scenario import Scenario


class RunVerbs(OpenedRoot):
    """Run scenarios."""

    def scenario(
        self, file: str | Path, *, variables: Mapping[str, str] | None = None, name: str | None = None
    ) -> Scenario:
        """Return the scenario in a file, with these values for its variables. `name` replaces the scenario's own name.

        Raises ConfigError with line and column, NotFoundError, UsageError for a variable that the scenario does not
        have.
        """
        from msgspec.structs import replace

        from beam.conversations.language import FILE
        from beam.conversations.read import read

        found = read((self._cwd / file).absolute(), variables or {}, shown=str(file))
        if name is None:
            return found
        return replace(found, name=str(FILE.fields["name"].read(name, ("--name",), found.source)))

    def plan(self, scenario: Scenario, *, replay: bool = False) -> list[PlanStep]:
        """Check a scenario against this machine and return the steps that would be run. Nothing is run or changed.

        With `replay` the agents' CLIs need not be installed. Raises NotFoundError, ConfigError, UsageError.
        """
        from beam.conversations.machine import check_machine, plan

        check_machine(scenario, self.context, needs_agents=not replay)
        return plan(scenario, self.context)

    def scenario_wants(self, scenario: Scenario) -> list[str]:
        """Return the parts of the scenario that take effect only after a person trusts the file, one sentence each."""
        from beam.conversations.trusted import findings_of_scenario

        return [
            each.name if each.says else f"it runs {each.name}" for each in findings_of_scenario(scenario, self.context)
        ]

    def trust_scenario(self, scenario: Scenario) -> None:
        """Trust a scenario's file, and the programs of this folder that the scenario names, as they are now."""
        from beam.conversations.trusted import trust

        self.check_person("trusts a scenario")
        trust(scenario, self.context)

    def untrusted_scenario(self, scenario: Scenario) -> str | None:
        """Return why the scenario can't run before a person trusts its file; None if it can."""
        from beam.base.errors import UntrustedError
        from beam.conversations.trusted import check_trusted

        try:
            check_trusted(scenario, self.context)
        except UntrustedError as error:
            return str(error)
        return None

    @coroutine_verb
    async def run(
        self,
        scenario: Scenario | str | Path,
        *,
        variables: Mapping[str, str] | None = None,
        ci: bool | None = None,
        fail_fast: bool = False,
        budget_usd: float | None = None,
        max_tokens: int | None = None,
        repeat: int | None = None,
        pass_rate: float | None = None,
        recording: Recording | None = None,
        seen: Callable[[RunProgress], None] | None = None,
    ) -> RunResult:
        """Run a scenario, given as an object or as its file, and return its result. A failed check is a result, not an
        error.

        `variables` are the values of variables if a file is given. `ci`: apply the stricter checks for CI, for example
        that no answer is missing (None: if `$CI` is set). `recording` says what is recorded or replayed. `seen` is
        called for each step when the step begins and when it is over.

        Raises ConfigError with line and column, NotFoundError (no such agent; its CLI is missing), UntrustedError,
        UsageError; SignalledError after a signal, whose `outcome` is the result so far.
        """
        from beam.conversations.machine import check_machine
        from beam.conversations.model_calls import check_replay
        from beam.conversations.play import play
        from beam.conversations.run_options import RunOptions
        from beam.conversations.scenario import Spending
        from beam.conversations.trusted import check_trusted
        from beam.root import discovery

        self.check_person("runs a scenario")
        recording = self._checked_recording(recording or Recording())
        for name, number in (("budget_usd", budget_usd), ("pass_rate", pass_rate)):
            if number is not None and not 0 <= number < float("inf"):
                raise UsageError(f"{name} is {number}", "give a number from 0", subject=name)
        if isinstance(scenario, (str, Path)):
            scenario = self.scenario(scenario, variables=variables)
        discovery.check_folder(self.home, self.environ)
        check_machine(scenario, self.context, needs_agents=recording.needs_agents, needs_proxies=recording.of_model)
        check_trusted(scenario, self.context)
        check_replay(recording)
        options = RunOptions(
            ci=self.environ.get("CI", "") not in ("", "0", "false") if ci is None else ci,
            fail_fast=fail_fast,
            limits=Spending(cost_usd=budget_usd, tokens=max_tokens),
            repeat=repeat,
            pass_rate=pass_rate,
            recording=recording,
        )
        return await play(scenario, self.context, options, seen or _ignore)


def _ignore(progress: RunProgress) -> None:
    """Ignore the progress of a run; the default for `seen`."""
