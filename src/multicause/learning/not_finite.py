"""Numbers that left the range of floating point."""


class NotFinite(FloatingPointError):
    """What became infinite or NaN, and why, with the way out."""

    def __init__(
        self,
        what: str,
        why: str = "The data's values are too large or too small for the model: rescale the data, for instance with "
        "StandardScaler.",
    ):
        super().__init__(what, why)
        self.what = what

    def __str__(self) -> str:
        return " ".join(self.args)
