//! Quantities that must not be negative, in the units of the scheduler.

use super::{Amount, BadQuantity};

/// The unit of a parsed quantity. Fractions of the unit are rounded up, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole units: bytes, devices.
    Whole,
    /// Thousandths: of a core, of a GPU.
    Milli,
}

const EXPECTED_QUANTITY: &str = "a quantity such as 2, 500m, 1.5Gi or 1e3";
const EXPECTED_WHOLE_RANGE: &str = "a quantity from 0 to 9223372036854775807";
const EXPECTED_MILLI_RANGE: &str = "a quantity from 0 to 9223372036854775.807";

/// Parses a quantity that must not be negative, in the unit of the scheduler's amounts.
///
/// # Errors
///
/// The expected form, for messages: the text is not a quantity, is negative, or exceeds an `i64` of
/// the unit.
pub fn parse_non_negative(text: &str, unit: Unit) -> Result<i64, &'static str> {
    let (decimals, allowed_size) = match unit {
        Unit::Whole => (0, EXPECTED_WHOLE_RANGE),
        Unit::Milli => (3, EXPECTED_MILLI_RANGE),
    };
    let Amount { is_negative, magnitude } =
        Amount::parse(text, decimals).map_err(|bad| match bad {
            BadQuantity::Malformed => EXPECTED_QUANTITY,
            BadQuantity::TooLarge => allowed_size,
        })?;
    if is_negative && magnitude > 0 {
        return Err(allowed_size);
    }
    i64::try_from(magnitude).map_err(|_| allowed_size)
}

/// Formats an amount in thousandths, such as `2` or `500m`.
pub fn format_milli(amount: i64) -> String {
    match amount % 1000 {
        0 => (amount / 1000).to_string(),
        _ => format!("{amount}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_exactly() {
        let cases = [
            ("2", Unit::Whole, 2),
            ("500m", Unit::Milli, 500),
            ("0.1", Unit::Milli, 100),
            ("1.5Gi", Unit::Whole, 1_610_612_736),
            ("1e3", Unit::Whole, 1_000),
            ("2E2", Unit::Whole, 200),
            ("1E", Unit::Whole, 1_000_000_000_000_000_000),
            ("7Ei", Unit::Whole, 7 << 60),
            ("100u", Unit::Milli, 1),
            ("1n", Unit::Whole, 1),
            (".5", Unit::Milli, 500),
            ("-0", Unit::Whole, 0),
            ("9223372036854775807", Unit::Whole, i64::MAX),
            ("0.000000000000000000000000000000000000000000000000001", Unit::Whole, 1),
            ("1e-32769", Unit::Whole, 1),
        ];
        for (text, unit, expected) in cases {
            assert_eq!(parse_non_negative(text, unit), Ok(expected), "{text}");
        }
    }

    #[test]
    fn negative_overflowing_and_malformed_quantities_are_errors() {
        for text in ["-1", "9223372036854775808", "8Ei", "1e30", "1e-2147483649"] {
            assert!(parse_non_negative(text, Unit::Whole).is_err(), "{text}");
        }
        let most = "9223372036854775807";
        assert_eq!(parse_non_negative(most, Unit::Milli), Err(EXPECTED_MILLI_RANGE));
        assert_eq!(parse_non_negative("9223372036854775.807", Unit::Milli), Ok(i64::MAX));
        for text in ["", "GPU", "1.2.3", "1Xi", "1 ", "e3", ".", "0x10", "1e", "--1"] {
            assert_eq!(parse_non_negative(text, Unit::Whole), Err(EXPECTED_QUANTITY), "{text}");
        }
    }
}
