"""``fleet doctor``, which is silent if all is well, and ``fleet doctor identity``, which asks key servers."""
