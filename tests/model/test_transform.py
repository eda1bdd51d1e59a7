"""The value transform keeps order for every float and spreads crowded values evenly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel
from eventsieve._kernels.positions import cell_of_code, code_of, position_of
from eventsieve.model.columns import Domains
from eventsieve.model.transform import (
    Distribution,
    Linear,
    Normal,
    Pareto,
    Quantiles,
    TransformTable,
    choose_distributions,
    parse_distribution,
    transform_table,
)

DISTRIBUTIONS: dict[str, Distribution] = {
    "linear": Linear(),
    "normal": Normal(0.5, 0.02**0.5),
    "normal outside the domain": Normal(50.0, 0.1),
    "pareto": Pareto(0.05, 2.0),
    "quantiles": Quantiles(np.random.default_rng(1).exponential(0.1, 500)),
    "quantiles of whole numbers": Quantiles([0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 9]),
    "quantiles of one value": Quantiles([0.25] * 10),
    "quantiles of nothing": Quantiles([]),
    "quantiles with gaps": Quantiles([np.nan, np.inf, 0.5, 0.25]),
}


@kernel
def _positions(table: TransformTable, values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(values.shape[0]):
        out[i] = position_of(table, 0, values[i])


@kernel
def _cells(table: TransformTable, n_cells: int, values: NDArray[np.float64], out: NDArray[np.int64]) -> None:
    for i in range(values.shape[0]):
        out[i] = cell_of_code(code_of(table, 0, values[i]), n_cells)


def _table(distribution: Distribution, low: float = 0.0, high: float = 1.0) -> TransformTable:
    return transform_table(Domains(np.array([low]), np.array([high])), {0: distribution})


def _positions_of(distribution: Distribution, values: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(values.size)
    _positions(_table(distribution), values, out)
    return out


@pytest.mark.parametrize("distribution", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_positions_lie_between_0_and_1_and_keep_the_order_of_all_values(
    distribution: Distribution, rng: np.random.Generator
) -> None:
    knots = _table(distribution).value
    values = np.concatenate(
        [
            rng.normal(0.5, 0.4, 2000),
            knots,
            np.nextafter(knots, -np.inf),
            np.nextafter(knots, np.inf),
            [-np.inf, np.inf, -1e308, 1e308, 0.0, 5e-324, -5e-324],
        ]
    )
    values.sort()
    positions = _positions_of(distribution, values)
    assert positions.min() >= 0.0
    assert positions.max() <= 1.0
    assert np.all(np.diff(positions) >= 0.0)


@pytest.mark.parametrize("n_cells", [1, 4, 7, 8, 255])
def test_cells_use_their_whole_range_and_outside_values_fall_into_the_edges(n_cells: int) -> None:
    values = np.array([-np.inf, -1.0, 0.0, 0.5, 1.0, 2.0, np.inf])
    cells = np.empty(values.size, np.int64)
    _cells(_table(Linear()), n_cells, values, cells)
    assert cells.tolist() == [0, 0, 0, n_cells // 2, n_cells - 1, n_cells - 1, n_cells - 1]


@pytest.mark.parametrize(
    ("distribution", "draw"),
    [
        (Normal(0.5, 0.1), lambda rng: rng.normal(0.5, 0.1, 20_000)),
        (Pareto(0.05, 2.0), lambda rng: 0.05 * (1 + rng.pareto(2.0, 20_000))),
        (Quantiles(np.random.default_rng(2).beta(0.3, 2.0, 1000)), lambda rng: rng.beta(0.3, 2.0, 20_000)),
    ],
    ids=["normal", "pareto", "quantiles"],
)
def test_values_of_the_distribution_fill_cells_evenly(
    distribution: Distribution, draw: Callable[[np.random.Generator], NDArray[np.float64]], rng: np.random.Generator
) -> None:
    values = draw(rng)
    cells = np.empty(values.size, np.int64)
    _cells(_table(distribution), 8, values, cells)
    shares = np.bincount(cells, minlength=8) / values.size
    assert shares.min() > 0.09
    assert shares.max() < 0.17


def test_a_frequent_value_keeps_a_position_of_its_own() -> None:
    positions = _positions_of(Quantiles([0, 0, 0, 0, 0, 0, 1, 2, 2, 3]), np.array([0.0, 1.0, 2.0, 3.0]))
    assert np.all(np.diff(positions) > 0.05)


def test_a_domain_too_wide_for_a_float_keeps_order() -> None:
    out = np.empty(3)
    _positions(_table(Linear(), -1.7e308, 1.7e308), np.array([-1.7e308, 0.0, 1.7e308]), out)
    assert np.all(np.diff(out) >= 0.0)


def test_attributes_without_a_distribution_are_linear() -> None:
    table = transform_table(Domains(np.zeros(3), np.full(3, 10.0)), {1: Normal(5.0, 1.0)})
    assert np.diff(table.start).tolist() == [2, 65, 2]
    assert table.value[:2].tolist() == [0.0, 10.0]


@pytest.mark.parametrize(
    "text", ["", "gauss 1 2", "normal", "normal 1", "normal a b", "normal 0 0", "pareto 0 1", "linear 1"]
)
def test_an_unreadable_transform_is_refused_with_what_can_be_written(text: str) -> None:
    with pytest.raises(ValueError, match="transform"):
        parse_distribution(text)


def test_a_choice_per_attribute_may_come_with_text_keys_as_from_json() -> None:
    chosen = choose_distributions({"1": "quantiles"}, 2, lambda a: np.array([1.0, 2.0]))
    assert list(chosen) == [1]
    assert isinstance(chosen[1], Quantiles)
    with pytest.raises(ValueError, match="no attribute 7"):
        choose_distributions({7: "linear"}, 2, lambda a: np.empty(0))
