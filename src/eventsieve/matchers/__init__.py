"""One file per algorithm, behind the contract of `base`, listed in `registry`."""
