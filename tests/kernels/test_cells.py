"""The cell mapping: monotone over all floats, clamped to the edge cells, the same for one value and for many."""

from __future__ import annotations

import numpy as np
import pytest

from eventsieve._kernels.cells import cell_grid, cells_of

BIG = 1.7e308
DOMAINS = [(0.0, 1.0), (-5.0, 12.5), (0.0, 5e-324), (-BIG, BIG), (1e16, 1e16 + 4), (-1e-300, 1e-300)]


def cells(values: np.ndarray, low: float, high: float, n_cells: int) -> np.ndarray:
    out = np.empty(values.size, np.int32)
    grid = cell_grid(np.array([low]), np.array([high]), n_cells)
    cells_of(grid, np.zeros(values.size, np.int32), values, out)
    return out


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("n_cells", [1, 2, 7, 1000])
def test_cells_never_fall_as_values_rise(domain: tuple[float, float], n_cells: int) -> None:
    low, high = domain
    rng = np.random.default_rng(3)
    with np.errstate(over="ignore"):
        inside = low / 2 + high / 2 + (high / 2 - low / 2) * rng.uniform(-1.5, 1.5, 2000)
    values = np.concatenate([inside, rng.normal(size=500), [low, high, 0.0, -0.0, BIG, -BIG, np.inf, -np.inf]])
    values = np.sort(np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)]))
    found = cells(values, low, high, n_cells)
    assert (np.diff(found) >= 0).all()
    assert found[0] == 0
    assert found[-1] < n_cells


def test_cells_cut_a_domain_into_equal_parts_and_clamp_outside() -> None:
    values = np.array([-np.inf, -1.0, 0.0, 0.24, 0.25, 0.5, 0.75, 1.0, 7.0, np.inf])
    assert cells(values, 0.0, 1.0, 4).tolist() == [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]


def test_each_attribute_has_its_own_cells() -> None:
    grid = cell_grid(np.array([0.0, 100.0]), np.array([1.0, 200.0]), 10)
    out = np.empty(3, np.int32)
    cells_of(grid, np.array([0, 1, 0], np.int32), np.array([0.55, 155.0, 155.0]), out)
    assert out.tolist() == [5, 5, 9]
