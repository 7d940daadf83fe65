"""The settings of a session that its agent offers: a mode and a model. Current agents report them in one list of
options, older agents in two lists, `modes` and `models`.

Does not depend on the meaning of a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from beam.agents.fields import Object, obj, objects, objects_of, string

SettingKind = Literal["mode", "model", "thought_level"]
SettingRequest = tuple[str, Object]
_OLD_LISTS: dict[SettingKind, tuple[str, str, str, str, str]] = {
    "mode": ("modes", "availableModes", "id", "currentModeId", "session/set_mode"),
    "model": ("models", "availableModels", "modelId", "currentModelId", "session/set_model"),
}
_PARAMETERS = {"mode": "modeId", "model": "modelId"}


class Options:
    """The settings of a session, as last reported by its agent. `mode` is the current mode, "" if there is none."""

    def __init__(self) -> None:
        self.mode = ""
        self._options: list[Object] = []
        self._old: dict[SettingKind, Object] = {}

    def record(self, answer: Object) -> None:
        """Record the settings in an answer or an update."""
        if isinstance(answer.get("configOptions"), list):
            self._options = objects_of(answer["configOptions"])
            option = self._option("mode")
            self.mode = self.mode if option is None else string(option, "currentValue")
        for kind, (group, _, _, current, _) in _OLD_LISTS.items():
            if group in answer:
                self._old[kind] = obj(answer, group)
                if kind == "mode" and self._option("mode") is None:
                    self.mode = string(self._old[kind], current)
        self.mode = string(answer, "currentModeId") or self.mode

    def record_change(self, kind: SettingKind, value: str, answer: Object) -> bool:
        """Record the agent's answer to the change of a setting. Return whether the setting has the new value: an agent
        that reports its settings may have kept the old one."""
        self.record(answer)
        option = self._option(kind)
        if "configOptions" in answer:
            return self.current(kind) == value
        if option is not None:
            self._options = [{**each, "currentValue": value} if each is option else each for each in self._options]
        elif kind in _OLD_LISTS:
            self._old[kind] = {**self._old.get(kind, {}), _OLD_LISTS[kind][3]: value}
        self.mode = value if kind == "mode" else self.mode
        return True

    def current(self, kind: SettingKind) -> str:
        """Return the current value of a setting; "" if there is none."""
        option = self._option(kind)
        if option is not None:
            return string(option, "currentValue")
        return string(self._old.get(kind, {}), _OLD_LISTS[kind][3]) if kind in _OLD_LISTS else ""

    def values(self, kind: SettingKind) -> list[str]:
        """Return the values that a setting can have."""
        option = self._option(kind)
        if option is not None:
            flat = [inner for each in objects(option, "options") for inner in (objects(each, "options") or [each])]
            return [string(each, "value") for each in flat]
        if kind not in self._old:
            return []
        _, list_key, name, _, _ = _OLD_LISTS[kind]
        return [string(each, name) for each in objects(self._old[kind], list_key)]

    def first_id_with_value(self, values: Mapping[str, str]) -> str:
        """Return the id of the first option whose current value is the value for that id in `values`; "" if there is
        none."""
        found = (
            string(each, "id") for each in self._options if values.get(string(each, "id")) == each.get("currentValue")
        )
        return next(found, "")

    def setting(self, kind: SettingKind, value: str) -> SettingRequest | None:
        """Return the method and the parameters that change the setting; None if the session has no such setting or
        value."""
        if value not in self.values(kind):
            return None
        option = self._option(kind)
        if option is not None:
            return "session/set_config_option", {"configId": string(option, "id"), "value": value}
        return _OLD_LISTS[kind][4], {_PARAMETERS[kind]: value}

    def _option(self, kind: SettingKind) -> Object | None:
        by_category = (option for option in self._options if option.get("category") == kind)
        by_name = (option for option in self._options if option.get("id") == kind)
        return next(by_category, None) or next(by_name, None)
