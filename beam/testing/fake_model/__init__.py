"""A scripted model on loopback for real agent CLIs: `with FakeModel(script) as model: model.url, model.prompts()`."""

from beam.testing.fake_model.script import Script, load, parse
from beam.testing.fake_model.server import FakeModel, Request, model_env, model_files

__all__ = ["FakeModel", "Request", "Script", "load", "model_env", "model_files", "parse"]
