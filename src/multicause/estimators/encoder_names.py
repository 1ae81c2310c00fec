"""The names by which other tools know `transform` and `inverse_transform`."""

from typing import Any


class EncoderNames:
    """`encode` and `decode`, for tools that expect an encoder and a decoder."""

    def encode(self, X: Any) -> Any:
        """The same as `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
            What `transform` gives.
        """
        return self.transform(X)  # type: ignore[attr-defined]

    def decode(self, S: Any) -> Any:
        """The same as `inverse_transform`.

        Parameters
        ----------
        S : array-like of shape (n_samples, n_components)
            Latents, as `encode` gives them.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data.
        """
        return self.inverse_transform(S)  # type: ignore[attr-defined]
