"""What points each headless CLI at one model names no other, and holds no real key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beam.testing.fake_model import model_env, model_files
from tests.support.clis import HEADLESS

URL = "http://127.0.0.1:1234"


@pytest.mark.parametrize("name", HEADLESS)
def test_the_only_address_is_the_models(name: str, tmp_path: Path) -> None:
    env = model_env(name, URL, tmp_path)
    written = [*env.values(), *(data.decode() for data in model_files(name, URL).values())]
    found = {address for text in written for address in re.findall(r"https?://[^\"\s]+", text)}
    assert found in ({URL}, {f"{URL}/v1"})
    assert env["NO_PROXY"] == env["no_proxy"] == "127.0.0.1,localhost"


@pytest.mark.parametrize("name", ["pi", "cn", "cline", "kimi"])
def test_a_configuration_file_lies_under_the_scratch_home(name: str, tmp_path: Path) -> None:
    env = model_env(name, URL, tmp_path)
    assert env["HOME"] == str(tmp_path)
    assert all((tmp_path / path).read_bytes() == data for path, data in model_files(name, URL).items())
