"""Quantities: the grammar of the API server, and its rounding."""

import pytest

from webhook import quantity

END = 2**63 - 1

MILLI = {
    "a whole number of cores": ("2", 2000),
    "millicores": ("250m", 250),
    "a decimal fraction": ("1.5", 1500),
    "no digit before the point": (".5", 500),
    "no digit after the point": ("5.", 5000),
    "a plus sign": ("+1", 1000),
    "a minus sign": ("-1", -1000),
    "nothing": ("0", 0),
    "microcores round up": ("100u", 1),  # 0.1 milli
    "a nanocore rounds up": ("1n", 1),
    "usage as metrics-server writes it": ("812345678n", 813),  # 812.3 milli
    "an exponent": ("1e3", 1_000_000),
    "a capital exponent": ("1E3", 1_000_000),
    "a negative exponent": ("5e-1", 500),
    "a decimal suffix": ("1k", 1_000_000),
    "a binary suffix": ("1Ki", 1_024_000),
    "more than an int64 holds": ("1E", END),  # 10**18 x 1000
}

WHOLE = {
    "plain bytes": ("128974848", 128_974_848),
    "a decimal suffix": ("129M", 129_000_000),
    "an exponent": ("129e6", 129_000_000),
    "a binary suffix": ("123Mi", 123 * 1024**2),
    "thousandths of a byte": ("128974848000m", 128_974_848),
    "a fraction of a binary suffix": ("1.5Gi", 1_610_612_736),
    "a fraction rounds up": ("0.5", 1),
    "a thousandth rounds up": ("1m", 1),
    "however small the rest, it rounds up": ("1.0000000000000000000000000001", 2),
    "an exbibyte, not an exponent": ("1Ei", 2**60),
    "an exabyte, not an exponent": ("1E", 10**18),
    "just below the end of an int64": ("9223372036854775806", END - 1),
    "2**63 saturates": ("8Ei", END),
    "a huge exponent saturates": ("1e300", END),
    "a huge negative number saturates": ("-1e300", -END),
    "many zeros in front count for nothing": ("0" * 60 + "7", 7),
    "a tiny exponent rounds up": ("1e-300", 1),
}

BAD = {
    "empty": "",
    "a word": "lots",
    "a suffix alone": "Gi",
    "a point alone": ".",
    "a sign alone": "+",
    "two signs": "--1",
    "two points": "1.2.3",
    "a comma": "1,5",
    "a space before": " 1",
    "a space inside": "1 Gi",
    "a line end": "1\n",
    "the wrong case of a binary suffix": "1gi",
    "a capital K without i": "1K",
    "digits after the suffix": "1Ki3",
    "an exponent without digits": "1e",
    "an exponent with a fraction": "1e1.5",
    "an exponent and a suffix": "1e3k",
    "hexadecimal": "0x10",
    "more than 64 characters": "0" * 65,
    "underscores": "1_000",
    "not a number": "NaN",
    "infinity": "inf",
    "digits of another script": "١٢",
}


@pytest.mark.parametrize(("text", "want"), MILLI.values(), ids=MILLI.keys())
def test_milli(text: str, want: int) -> None:
    assert quantity.milli(text) == want


@pytest.mark.parametrize(("text", "want"), WHOLE.values(), ids=WHOLE.keys())
def test_whole(text: str, want: int) -> None:
    assert quantity.whole(text) == want


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_what_is_no_quantity_is_refused(text: str) -> None:
    for read in (quantity.milli, quantity.whole):
        with pytest.raises(quantity.QuantityError, match="expected a quantity"):
            read(text)


def test_the_error_quotes_no_more_than_the_start_of_a_long_text() -> None:
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.whole("x" * 100_000)

    assert len(str(caught.value)) < 200
