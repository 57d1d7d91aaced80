//! Kubernetes quantities, parsed and formatted exactly, without floats and overflow.

/// The unit of the result. Fractions of it are rounded up, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole units: bytes, devices.
    Whole,
    /// Thousandths: of a core, of a GPU.
    Milli,
}

const ALLOWED: &str = "a quantity such as 2, 500m, 1.5Gi or 1e3";
const ALLOWED_WHOLE: &str = "a quantity from 0 to 9223372036854775807";
const ALLOWED_MILLI: &str = "a quantity from 0 to 9223372036854775.807";

/// Parses a quantity that must not be negative, to the size of the scheduler's amounts. Unlike
/// [`parse`](super::parse) it accepts any number of decimals.
///
/// # Errors
///
/// The allowed form: the text is not a quantity, is negative, or exceeds an `i64` of the unit.
pub fn non_negative(text: &str, unit: Unit) -> Result<i64, &'static str> {
    let allowed_size = match unit {
        Unit::Whole => ALLOWED_WHOLE,
        Unit::Milli => ALLOWED_MILLI,
    };
    let (negative, digits_and_suffix) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits_and_suffix
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(digits_and_suffix.len());
    let (digits, suffix) = digits_and_suffix.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(ALLOWED);
    }
    let (base, mut exponent) = scale(suffix).ok_or(ALLOWED)?;
    if unit == Unit::Milli {
        exponent += 3;
    }
    let fraction = fraction.trim_end_matches('0');
    exponent -= i64::try_from(fraction.len()).map_err(|_| allowed_size)?;
    let mantissa = [whole, fraction].concat();
    let mantissa = mantissa.trim_start_matches('0');
    if mantissa.is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(allowed_size);
    }
    let mantissa: i128 = mantissa.parse().map_err(|_| allowed_size)?;
    let value = mantissa.checked_mul(base).ok_or(allowed_size)?;
    shifted(value, exponent).and_then(|value| i64::try_from(value).ok()).ok_or(allowed_size)
}

/// A suffix as factor and power of ten.
fn scale(suffix: &str) -> Option<(i128, i64)> {
    Some(match suffix {
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
            let digits = exponent.strip_prefix(['e', 'E'])?;
            (1, digits.parse::<i16>().ok()?.into())
        }
    })
}

/// `value × 10^exponent`, rounded up; `None` on overflow.
fn shifted(value: i128, exponent: i64) -> Option<i128> {
    let power = u32::try_from(exponent.unsigned_abs()).ok()?;
    if exponent >= 0 {
        return value.checked_mul(10_i128.checked_pow(power)?);
    }
    // A positive value divided by a power beyond its digits is rounded up to one.
    Some(10_i128.checked_pow(power).map_or(1, |divisor| (value + divisor - 1) / divisor))
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
        ];
        for (text, unit, expected) in cases {
            assert_eq!(non_negative(text, unit), Ok(expected), "{text}");
        }
    }

    #[test]
    fn negative_overflowing_and_malformed_quantities_are_errors() {
        for text in ["-1", "9223372036854775808", "8Ei", "1e30", "1e-32769"] {
            assert!(non_negative(text, Unit::Whole).is_err(), "{text}");
        }
        let most = "9223372036854775807";
        assert_eq!(non_negative(most, Unit::Milli), Err(ALLOWED_MILLI));
        assert_eq!(non_negative("9223372036854775.807", Unit::Milli), Ok(i64::MAX));
        for text in ["", "GPU", "1.2.3", "1Xi", "1 ", "e3", ".", "0x10", "1e", "--1"] {
            assert_eq!(non_negative(text, Unit::Whole), Err(ALLOWED), "{text}");
        }
    }
}
