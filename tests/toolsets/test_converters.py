"""Conversion of the published arguments by the libraries of hosts, which know the subsets best.

OpenAI's and Anthropic's are among the test packages. Google's wants an older tenacity than the product, so it runs in
an environment of its own, which ``make hosts`` makes. They are slow to import, so only the tests that need them do it.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from coordinator.toolsets.schema import input_schema
from tests.toolsets.host_schemas import OPEN, TOOLS

SCHEMAS: dict[str, dict[str, Any]] = {name: input_schema(tool.arguments) for name, tool in TOOLS.items()}
GOOGLE = Path(os.environ.get("HOSTS_VENV", f"{sys.prefix}-hosts")) / "bin" / "python"

CONVERT = """
import json, sys
from langchain_google_genai._function_utils import convert_to_genai_function_declarations  # private: it is nowhere else
made = {}
for name, schema in json.load(sys.stdin).items():
    try:
        (tool,) = convert_to_genai_function_declarations([{"name": "tool", "description": "d", "parameters": schema}])
        parameters = tool.function_declarations[0].parameters
        made[name] = parameters.model_dump(mode="json", exclude_none=True) if parameters else {}
    except Exception as error:
        made[name] = repr(error)
print(json.dumps(made))
"""


@pytest.mark.parametrize("name", SCHEMAS)
def test_openai_agents_makes_them_strict_except_for_those_named(name: str) -> None:
    from agents.exceptions import UserError
    from agents.strict_schema import ensure_strict_json_schema

    schema = copy.deepcopy(SCHEMAS[name])
    if name in OPEN:
        with pytest.raises(UserError, match=r"undeclared properties|additionalProperties"):
            ensure_strict_json_schema(schema, _reject_open_objects=True)
    else:
        strict = ensure_strict_json_schema(schema, _reject_open_objects=True)
        assert strict["required"] == list(strict["properties"])


@pytest.mark.parametrize("name", SCHEMAS)
def test_pydantic_ai_converts_them_for_each_vendor(name: str) -> None:
    from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
    from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer

    with warnings.catch_warnings():
        # Open objects become closed ones in strict mode; which those are is tested above.
        warnings.filterwarnings("ignore", message="`dict` fields are not supported", category=UserWarning)
        for make in (OpenAIJsonSchemaTransformer, AnthropicJsonSchemaTransformer, GoogleJsonSchemaTransformer):
            made = make(copy.deepcopy(SCHEMAS[name]), strict=True).walk()
            assert list(made["properties"]) == list(SCHEMAS[name]["properties"])


@pytest.mark.hosts
@pytest.mark.skipif(not GOOGLE.exists(), reason="needs the environment that `make hosts` makes")
def test_langchain_converts_them_to_declarations_for_gemini() -> None:
    given = json.dumps(SCHEMAS)
    done = subprocess.run([GOOGLE, "-c", CONVERT], input=given, capture_output=True, text=True, check=True)
    made = json.loads(done.stdout)
    assert {name: one for name, one in made.items() if isinstance(one, str)} == {}
    for name, schema in SCHEMAS.items():
        assert list(made[name].get("properties", ())) == list(schema["properties"]), name
    # A converter without a type makes everything text.
    assert made["flows/workflow_list"]["properties"]["limit"]["type"] == "INTEGER"
    assert made["navigator/nav_action"]["properties"]["loop_items"]["items"]["type"] == "STRING"
    assert "tool" in made["flows/workflow_create"]["properties"]["flow"]["properties"]["start"]["properties"]
    assert {"id", "kind"} <= set(made["items/claim_item"]["properties"]["actor"]["required"])
