"""The maximum of a Student-t likelihood: Newton steps, each no worse than a step of iteratively reweighted averages."""

import numpy as np
from scipy.special import gammaln, polygamma, psi

LOG_2PI = float(np.log(2.0 * np.pi))
SMALLEST_BETA = 0.75  # few data sets tell heavier tails (half a degree of freedom) from a point mass
LARGEST_BETA = 1e4  # a Gaussian, to all digits that matter
SHARPEST = 100.0  # sqrt(beta) theta, in units of the data's spread: a mass on one value would let it grow for ever
_NAMES = ("mean", "inverse_scale", "inverse_temperature")
_LONGEST = np.array([1.0, 1.0, 2.0])  # step in mu theta, log theta and log(beta - 1/2)

Parameters = tuple[float, float, float]


class _Moments:
    """All that the likelihood of z and its derivatives need, of one pass over z."""

    def __init__(self, parameters: Parameters, z: np.ndarray, weights: np.ndarray):
        self.parameters = parameters
        mean, theta, self.beta = parameters
        self.d = theta * (z - mean)
        self.q = 1.0 / (1.0 + 0.5 * self.d * self.d)
        self.weights = weights
        self.mean_log = -float(weights @ np.log(self.q))
        constant = np.log(theta) + gammaln(self.beta) - gammaln(self.beta - 0.5) - 0.5 * LOG_2PI
        self.log_likelihood = float(constant - self.beta * self.mean_log)

    def newton(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the mean log-likelihood in (mu theta, log theta, log(beta - 1/2))."""
        w, q, beta = self.weights, self.q, self.beta
        wq = w * q
        q1, q2, dq, dq2 = wq.sum(), wq @ q, wq @ self.d, (wq * q) @ self.d
        excess = 1.0 - q1  # <t / (1 + t)>
        slope_beta = psi(beta) - psi(beta - 0.5) - self.mean_log
        curve_beta = polygamma(1, beta) - polygamma(1, beta - 0.5)
        nu = beta - 0.5
        gradient = np.array([beta * dq, 1.0 - 2.0 * beta * excess, nu * slope_beta])
        hessian = np.array(
            [
                [beta * (q1 - 2.0 * q2), 2.0 * beta * dq2, nu * dq],
                [2.0 * beta * dq2, -4.0 * beta * (q1 - q2), -2.0 * nu * excess],
                [nu * dq, -2.0 * nu * excess, nu * slope_beta + nu**2 * curve_beta],
            ]
        )
        return gradient, hessian

    def reweighted(self, z: np.ndarray, free: np.ndarray) -> Parameters:
        """mu and theta by reweighted averages (eq. 45-47): an EM step, which never lowers the likelihood."""
        mean, theta, beta = self.parameters
        wq = self.weights * self.q
        if free[0]:
            mean = float(wq @ z / wq.sum())
        if free[1]:
            theta = 1.0 / np.sqrt(max(float(beta * (wq @ (z - mean) ** 2)), 1e-300))
        return mean, theta, beta


def spread_of(z: np.ndarray, weights: np.ndarray) -> float:
    """The standard deviation."""
    return float(np.sqrt(weights @ (z - weights @ z) ** 2))


def fit_student_t(
    parameters: Parameters,
    fixed: tuple[str, ...],
    z: np.ndarray,
    weights: np.ndarray,
    n_steps: int,
    spread: float | None = None,
) -> Parameters:
    """Parameters under which the weighted mean log-likelihood of z is at least what it was.

    `spread` is that of the data the sharpness is measured by, where z has a part in them only.
    """
    free = np.array([name not in fixed for name in _NAMES])
    spread = spread_of(z, weights) if spread is None else spread
    if not free.any() or not spread > 0.0:
        return parameters
    now = _Moments(parameters, z, weights)
    for _ in range(n_steps):
        best = max(_candidates(now, z, free, spread), key=lambda trial: trial.log_likelihood)
        gain = best.log_likelihood - now.log_likelihood
        if not gain > 0.0:
            break
        now = best
        if gain < 1e-11:
            break
    return now.parameters


def _candidates(now: _Moments, z: np.ndarray, free: np.ndarray, spread: float) -> list[_Moments]:
    """A Newton step where the likelihood is concave, an ascent step where it is not; and reweighting if that fails."""
    gradient, hessian = now.newton()
    gradient, hessian = gradient[free], hessian[np.ix_(free, free)]
    values, vectors = np.linalg.eigh(hessian)
    step = np.zeros(3)
    step[free] = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-9))
    step /= max(1.0, np.max(np.abs(step) / _LONGEST))
    trial = _Moments(_bounded(_moved(now.parameters, step), now.parameters, spread, free), z, now.weights)
    if trial.log_likelihood > now.log_likelihood:
        return [trial]
    reweighted = _bounded(now.reweighted(z, free), now.parameters, spread, free)
    half = _bounded(_moved(now.parameters, 0.1 * step), now.parameters, spread, free)
    return [_Moments(parameters, z, now.weights) for parameters in (reweighted, half)]


def _moved(parameters: Parameters, step: np.ndarray) -> Parameters:
    mean, theta, beta = parameters
    return (
        mean + float(step[0]) / theta,
        theta * float(np.exp(step[1])),
        0.5 + (beta - 0.5) * float(np.exp(step[2])),
    )


def _bounded(trial: Parameters, before: Parameters, spread: float, free: np.ndarray) -> Parameters:
    """Bounds hold for what is fitted; a value that is held is the user's."""
    mean, theta, beta = trial
    beta = min(max(beta, SMALLEST_BETA), LARGEST_BETA) if free[2] else before[2]
    theta = min(max(theta, 1e-6 / spread), SHARPEST / (np.sqrt(beta) * spread)) if free[1] else before[1]
    return mean, float(theta), beta
