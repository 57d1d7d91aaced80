//! Kubernetes quantities (`100m`, `1.5Gi`, `2e3`) as exact integers in thousandths.
//!
//! Smaller fractions are rounded up, as in Kubernetes. Whether a quantity may be negative is
//! checked by the caller.

mod non_negative;

use super::Value;
pub use non_negative::{Unit, format_milli, non_negative};

/// Thousandths of a unit: `1` is 1000, `250m` is 250, `1Ki` is 1024000.
pub type Milli = i128;

/// The maximum: 2^63 - 1 whole units, as in Kubernetes.
const WHOLE_MAX: Milli = (i64::MAX as Milli) * 1000;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuantity {
    /// Not a number with a known suffix.
    #[error(
        "not a quantity: write a number with at most one suffix of m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
    )]
    Malformed,
    /// More than 2^63 - 1 whole units.
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
    if let Some(milli) = whole(text) {
        return Ok(milli);
    }
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(BadQuantity::Malformed);
    }
    let (times, over) = scale(suffix)?;
    let digits = format!("{whole}{fraction}");
    let places = u32::try_from(fraction.len()).map_err(|_| BadQuantity::TooLarge)?;
    let value: Milli = digits.parse().map_err(|_| BadQuantity::TooLarge)?;
    let divisor = 10_i128
        .checked_pow(places)
        .and_then(|ten| ten.checked_mul(over))
        .ok_or(BadQuantity::TooLarge)?;
    let scaled = value.checked_mul(times).ok_or(BadQuantity::TooLarge)?;
    let milli = scaled / divisor + Milli::from(scaled % divisor != 0);
    if milli > WHOLE_MAX {
        return Err(BadQuantity::TooLarge);
    }
    Ok(if negative { -milli } else { milli })
}

/// Fast path for most quantities: few digits and an integral suffix.
fn whole(text: &str) -> Option<Milli> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(end).filter(|_| end > 0 && end < 10)?;
    let (times, 1) = scale(suffix).ok()? else { return None };
    let milli = Milli::from(digits.parse::<u32>().ok()?).checked_mul(times)?;
    (milli <= WHOLE_MAX).then_some(milli)
}

/// The factor of a suffix to thousandths, as numerator and denominator.
fn scale(suffix: &str) -> Result<(Milli, Milli), BadQuantity> {
    let times: Milli = match suffix {
        "n" => return Ok((1, 1_000_000)),
        "u" => return Ok((1, 1000)),
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 10_i128.pow(9),
        "G" => 10_i128.pow(12),
        "T" => 10_i128.pow(15),
        "P" => 10_i128.pow(18),
        "E" => 10_i128.pow(21),
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        "Pi" => 1000 << 50,
        "Ei" => 1000 << 60,
        _ => return exponent(suffix),
    };
    Ok((times, 1))
}

/// The factor of a decimal exponent such as `e3` or `E-2`.
fn exponent(suffix: &str) -> Result<(Milli, Milli), BadQuantity> {
    let power = suffix.strip_prefix(['e', 'E']).ok_or(BadQuantity::Malformed)?;
    let power: i32 = power.parse().map_err(|_| BadQuantity::Malformed)?;
    let ten = 10_i128.checked_pow(power.unsigned_abs()).ok_or(BadQuantity::TooLarge)?;
    if power < 0 {
        return Ok((1000, ten));
    }
    Ok((ten.checked_mul(1000).ok_or(BadQuantity::TooLarge)?, 1))
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
            ("-3", -3000),
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
