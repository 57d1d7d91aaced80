//! Kubernetes quantities (`100m`, `1.5Gi`, `2e3`) as exact integers in thousandths.
//!
//! Smaller fractions are rounded up, as in Kubernetes. Whether a quantity may be negative is
//! checked by the caller.

mod non_negative;

use super::Value;
pub use non_negative::{Unit, format_milli, parse_non_negative};

/// Thousandths of a unit: `1` is 1000, `250m` is 250, `1Ki` is 1024000.
pub type Milli = i128;

/// The maximum of a quantity: 2^63 - 1 whole units, as in Kubernetes.
const WHOLE_MAX: Milli = (i64::MAX as Milli) * 1000;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuantity {
    /// The text is no number with a known suffix.
    #[error(
        "not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
    )]
    Malformed,
    /// The quantity exceeds 2^63 - 1 whole units.
    #[error("too large: a quantity holds at most 9223372036854775807 (2^63 - 1)")]
    TooLarge,
}

/// The quantity in a JSON field, in thousandths; `None` if it is not a quantity.
pub fn thousandths(value: &Value) -> Option<Milli> {
    match value {
        Value::String(text) => parse(text).ok(),
        Value::Number(number) => parse(&number.to_string()).ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Parses a quantity into thousandths.
///
/// # Errors
///
/// The text is not a quantity, or it is too large.
pub fn parse(text: &str) -> Result<Milli, BadQuantity> {
    if let Some(milli) = parse_small_whole(text) {
        return Ok(milli);
    }
    let Amount { is_negative, magnitude } = Amount::parse(text, 3)?;
    if magnitude > WHOLE_MAX {
        return Err(BadQuantity::TooLarge);
    }
    Ok(if is_negative { -magnitude } else { magnitude })
}

/// Parses a quantity with few digits and an integral suffix, as most are, faster than
/// [`Amount::parse`]. `None`: the quantity needs the general parser.
fn parse_small_whole(text: &str) -> Option<Milli> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(end).filter(|_| end > 0 && end < 10)?;
    let Suffix { factor, exponent } = Suffix::parse(suffix).filter(|unit| unit.exponent >= -3)?;
    let number = Milli::from(digits.parse::<u32>().ok()?);
    let milli = scale_by_power_of_ten(number.checked_mul(factor)?, exponent + 3)?;
    (milli <= WHOLE_MAX).then_some(milli)
}

/// A quantity in some decimal unit. Fractions of the unit are rounded up.
struct Amount {
    is_negative: bool,
    magnitude: i128,
}

impl Amount {
    /// Parses a quantity in units of `10^-decimals`.
    fn parse(text: &str, decimals: i64) -> Result<Self, BadQuantity> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(BadQuantity::Malformed);
        }
        let Suffix { factor, exponent } = Suffix::parse(suffix).ok_or(BadQuantity::Malformed)?;
        let fraction = fraction.trim_end_matches('0');
        let digits = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Self { is_negative, magnitude: 0 });
        }
        let places = i64::try_from(fraction.len()).map_err(|_| BadQuantity::TooLarge)?;
        let number: i128 = digits.parse().map_err(|_| BadQuantity::TooLarge)?;
        let scaled = number.checked_mul(factor).ok_or(BadQuantity::TooLarge)?;
        let magnitude = scale_by_power_of_ten(scaled, exponent + decimals - places)
            .ok_or(BadQuantity::TooLarge)?;
        Ok(Self { is_negative, magnitude })
    }
}

/// The unit that a suffix stands for: `factor × 10^exponent`.
struct Suffix {
    factor: i128,
    exponent: i64,
}

impl Suffix {
    /// Parses a suffix such as `Mi`, or a decimal exponent such as `e3` or `E-2`; `None` if the
    /// text is neither.
    fn parse(suffix: &str) -> Option<Self> {
        let (factor, exponent) = match suffix {
            "" => (1, 0),
            "n" => (1, -9),
            "u" => (1, -6),
            "m" => (1, -3),
            "k" => (1, 3),
            "M" => (1, 6),
            "G" => (1, 9),
            "T" => (1, 12),
            "P" => (1, 15),
            "E" => (1, 18),
            "Ki" => (1 << 10, 0),
            "Mi" => (1 << 20, 0),
            "Gi" => (1 << 30, 0),
            "Ti" => (1 << 40, 0),
            "Pi" => (1 << 50, 0),
            "Ei" => (1 << 60, 0),
            exponent => {
                let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
                (1, power.into())
            }
        };
        Some(Self { factor, exponent })
    }
}

/// `value × 10^exponent`, rounded up; `None` on overflow.
fn scale_by_power_of_ten(value: i128, exponent: i64) -> Option<i128> {
    let power = u32::try_from(exponent.unsigned_abs()).ok()?;
    if exponent >= 0 {
        return value.checked_mul(10_i128.checked_pow(power)?);
    }
    // A positive value divided by a power beyond its digits is rounded up to one.
    let rounded_up = |divisor| value / divisor + i128::from(value % divisor != 0);
    Some(10_i128.checked_pow(power).map_or(1, rounded_up))
}

#[cfg(test)]
mod tests {
    use crate::json;

    use super::{BadQuantity, parse, thousandths};

    #[test]
    fn suffixes_scale_exactly_and_fractions_round_up() {
        for (text, milli) in [
            ("1", 1000),
            ("100m", 100),
            ("1.5", 1500),
            ("1.5Gi", 1_610_612_736_000),
            ("2e3", 2_000_000),
            ("5E-1", 500),
            ("1n", 1),
            (".5", 500),
            ("1e-99", 1),
            ("0.000000000000000000000000000000000000000000000000001", 1),
            ("0e99", 0),
            ("-3", -3000),
            ("-1n", -1),
            ("8E", 8_000_000_000_000_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(milli), "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_rejected_with_its_reason() {
        for text in ["", "Gi", "1.2.3", "1 Gi", "ten", "1gi", "--1", "1e", "0x10", "."] {
            assert_eq!(parse(text), Err(BadQuantity::Malformed), "{text}");
        }
        for text in
            ["9223372036854775808", "10Ei", "1e99", "99999999999999999999999999999999999999999"]
        {
            assert_eq!(parse(text), Err(BadQuantity::TooLarge), "{text}");
        }
    }

    #[test]
    fn fields_hold_quantities_as_text_or_number() {
        assert_eq!(thousandths(&json!("1500m")), Some(1500));
        assert_eq!(thousandths(&json!(8)), Some(8000));
        assert_eq!(thousandths(&json!(0.25)), Some(250));
        assert_eq!(thousandths(&json!("eight")), None);
        assert_eq!(thousandths(&json!([1])), None);
    }
}
