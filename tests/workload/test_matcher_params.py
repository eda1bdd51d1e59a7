"""The papers' parameters that the standard workloads carry are parameters that the matchers take."""

import pytest

from eventsieve.matchers.registry import make_matcher, matchers
from eventsieve.workload import standard, workload_names


@pytest.mark.parametrize("workload", workload_names())
@pytest.mark.parametrize("matcher", matchers())
def test_matchers_take_the_papers_parameters(workload: str, matcher: str) -> None:
    params = standard(workload).matcher_params.get(matcher, {})
    assert make_matcher(matcher, **params).params.items() >= params.items()
