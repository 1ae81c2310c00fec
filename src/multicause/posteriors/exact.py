"""The exact posterior: every one of the 2^H states."""

from multicause.posteriors.truncated import TruncatedPosterior


class ExactPosterior(TruncatedPosterior):
    """q_n(s) = p(s | y_n): a truncation that leaves nothing out, since all latents are candidates and all may be on."""

    def __init__(self, n_components: int, use_kernel: bool = True):
        super().__init__(n_candidates=n_components, max_active=n_components, use_kernel=use_kernel)
