"""A checksum at memory speed, so that every open of a snapshot can afford to verify it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import kernel

_PRIME = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits: odd, so multiplying by it loses nothing."""


def checksum(data: NDArray[np.uint8]) -> int:
    """Return a 64-bit checksum of bytes. It guards against damage, not against an attacker."""
    whole = data.shape[0] // 8 * 8
    padded = np.zeros(8, np.uint8)
    padded[: data.shape[0] - whole] = data[whole:]
    mixed = int(_fold(data[:whole].view(np.uint64), np.empty(8, np.uint64)))
    tail = int(padded.view(np.uint64)[0])
    return (mixed ^ (tail * int(_PRIME)) ^ (data.shape[0] * 0xC2B2AE3D27D4EB4F)) & 0xFFFFFFFFFFFFFFFF


@kernel
def _fold(words: NDArray[np.uint64], lanes: NDArray[np.uint64]) -> np.uint64:
    """Mix every word into one of eight lanes, whose chains of multiplications run side by side."""
    for lane in range(8):
        lanes[lane] = _PRIME + np.uint64(lane)
    whole = words.shape[0] // 8 * 8
    for first in range(0, whole, 8):
        for lane in range(8):
            mixed = (lanes[lane] ^ words[first + lane]) * _PRIME
            lanes[lane] = mixed ^ (mixed >> np.uint64(29))
    for at in range(whole, words.shape[0]):
        lanes[at - whole] = (lanes[at - whole] ^ words[at]) * _PRIME
    total = np.uint64(0)
    for lane in range(8):
        total = (total ^ lanes[lane]) * _PRIME
        total ^= total >> np.uint64(32)
    return total
