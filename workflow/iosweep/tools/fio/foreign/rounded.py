"""Numbers as fio prints them for people, and how far what was printed may be from them."""

from __future__ import annotations

from dataclasses import dataclass

_BINARY = {"": 1, "K": 1 << 10, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


@dataclass(frozen=True)
class Rounded:
    """A printed number: the digits, and how far what was printed may be from it (a unit of the last digit)."""

    value: float
    ulp: float

    @staticmethod
    def of(text: str, binary: bool = False, remainder: bool = False) -> Rounded:
        """`9167`, `16.9M`, `390k`. fio prints 17.95 as `17.0`, so a last digit 0 after the point says nothing.

        `remainder`: up to 2.19 the digits after the point are the remainder and not a fraction (1205.63 and
        1205.07 are both printed as `1205.7`), so that only the whole number counts.
        """
        digits = text.strip().rstrip("KkMGTP")
        scale = (_BINARY if binary else _DECIMAL)[text.strip()[len(digits) :]]
        if remainder and "." in digits:
            return Rounded((int(digits.partition(".")[0]) + 0.5) * scale, scale)
        decimals = 0 if digits.endswith(".0") else len(digits.partition(".")[2])
        return Rounded(float(digits) * scale, 10.0**-decimals * scale)

    def over(self, divisor: float) -> Rounded:
        return Rounded(self.value / divisor, self.ulp / divisor)

    def agrees(self, other: Rounded) -> bool:
        return abs(self.value - other.value) <= 1.001 * (self.ulp + other.ulp)
