"""The OpenAPI document says what the server does: whatever fits it is taken, whatever comes back fits it."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from detent.surfaces.server import document
from detent.surfaces.server.route_table import routes
from tests.effort import examples
from tests.surfaces.server.background import serving_in_a_thread

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
STREAMS = {route.address for route in routes() if route.kind == "stream"}
EXAMPLES = examples(12)


def test_the_document_lists_every_route_once() -> None:
    made = document(routes())
    assert made["openapi"].startswith("3.1")
    listed = [(method.upper(), path) for path, item in made["paths"].items() for method in item]
    assert sorted(listed) == sorted((route.method, route.address) for route in routes())
    names = [operation["operationId"] for item in made["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with a few runs in different states."""
    with serving_in_a_thread(tmp_path_factory.mktemp("openapi")) as address:
        yield address


OPERATIONS = [(route.method, route.address) for route in routes() if route.address not in STREAMS]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{method} {path}" for method, path in OPERATIONS])
def test_no_request_makes_the_server_fail_or_break_its_promises(method: str, path: str, server: str) -> None:
    schema = schemathesis.openapi.from_dict(document(routes()))
    schema.config.base_url = server
    operation = schema[path][method]

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate],
    )  # fmt: skip
    def tried(case: Any) -> None:
        if "run_id" in case.path_parameters and len(str(case.body)) % 3:
            case.path_parameters["run_id"] = "last"  # chance alone never finds a run that is there
        case.call_and_validate(checks=CHECKS)

    tried()


def test_the_shapes_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs/reference/http.md").read_text(encoding="utf-8")
    for route in routes():
        words = [part for part in route.address.split("/") if part and "{" not in part]
        assert words[-1] in text, route.address
