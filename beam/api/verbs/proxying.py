"""Methods for proxies between agent CLIs and their models: run a proxy, return model calls, compare two runs, keep API
keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from beam.api.verbs.sending import SendVerbs

if TYPE_CHECKING:
    from beam.api.proxy import ProxyChecked
    from beam.model.events import ModelCalled
    from beam.proxy.owner import ProxyProcess
    from beam.proxy.served import ServedRequest


class ProxyVerbs(SendVerbs):
    """Record and replay model calls."""

    def proxy(
        self,
        *,
        record: Path | None = None,
        replay: Path | None = None,
        upstream: str = "",
        on_miss: Literal["stop", "live"] = "stop",
        fork_at: int | None = None,
        fork_model: str = "",
        agent: str = "",
        port: int = 0,
        max_tokens: int | None = None,
        budget_usd: float | None = None,
        token: str = "",
        shield: str = "",
        places: Mapping[str, str] | None = None,
        seen: Callable[[ServedRequest], None] | None = None,
    ) -> ProxyProcess:
        """Start a proxy in a process of its own and return it. The proxy has a `url`. It ends with its `with` block or
        by `stop()`.

        `record` and `replay` are directories, `upstream` is the URL of the model's API. `on_miss`: calls that were not
        recorded are refused (`stop`), or go to that model and are recorded (`live`). From the model call number
        `fork_at` on, all calls go to that model; `fork_model` replaces the model that the calls name. `agent` is the
        adapter whose CLI sends the requests ("": any). `token` is the key that the agent must give; `shield` says where
        the real key is: on the descriptor N (`fd:N`), or in the keyring under that name. `places` are the folders that
        requests may mention, each by a name of your choice; use the same names for a replay. `seen` is called with the
        result of each request, from a thread.

        Raises UsageError, NotFoundError (the folder has no recording), CorruptError, DiskError.
        """
        self.check_person("runs a proxy")
        from beam.api import proxy

        return proxy.start(
            self.environ,
            record=record,
            replay=replay,
            upstream=upstream,
            on_miss=on_miss,
            fork_at=fork_at,
            fork_model=fork_model,
            agent=agent,
            port=port,
            max_tokens=max_tokens,
            budget_usd=budget_usd,
            token=token,
            shield=shield,
            places=places,
            seen=seen,
        )

    def model_calls(self, message_id: str) -> list[ModelCalled]:
        """Return the model calls of a message's turns that went through a proxy, each with its differences from the
        recorded call. Raises NotFoundError for an unknown message."""
        from beam.api import proxy

        return proxy.calls_of(self.context, message_id)

    def check_determinism(self, agent: str, text: str) -> ProxyChecked:
        """Send a text twice in throw-away sessions, the second time from a recording of the first, and return the
        differences. The first turn costs as much as any other turn."""
        self.check_person("checks an agent")
        from beam.api import proxy

        return proxy.compare_runs(self.send, agent, text)

    def keep_secret(self, name: str, key: str) -> None:
        """Keep an API key under this name in the system's keyring. Raises UsageError for a text that can't be a key,
        UnsupportedError if there is no keyring."""
        self.check_person("keeps a key")
        from beam.secrets import keyring

        keyring.store(name, key)

    def remove_secret(self, name: str) -> None:
        """Remove an API key from the system's keyring. Raises NotFoundError, UnsupportedError."""
        self.check_person("removes a key")
        from beam.secrets import keyring

        keyring.remove(name)
