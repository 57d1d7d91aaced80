//! Kubernetes quantities (`500m`, `1.5Gi`, `2e3`, plain numbers) in exact thousandths of their
//! unit. The harness has its own reader: what judges the scheduler must not share its parser.

use serde_json::Value;

/// Thousandths of the unit, rounded up as the API server does; `None`: not a quantity.
pub fn thousandths(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// As [`thousandths`], from text.
pub fn parse(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let number_ends = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(number_ends.unwrap_or(unsigned.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, divisor) = scale(suffix)?;
    let places = u32::try_from(fraction.len()).ok()?;
    let divisor = 10_i128.checked_pow(places)?.checked_mul(divisor)?;
    let product = digits.checked_mul(factor)?.checked_mul(1000)?;
    let magnitude = product / divisor + i128::from(product % divisor != 0);
    Some(if negative { -magnitude } else { magnitude })
}

/// What a suffix multiplies and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let scale = match suffix {
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "" => (1, 1),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10_i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, ten) } else { (ten, 1) }
        }
    };
    Some(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_thousandths() {
        let read = |text| parse(text).unwrap();
        assert_eq!(read("8"), 8000);
        assert_eq!(read("1500m"), 1500);
        assert_eq!(read("0.25"), 250);
        assert_eq!(read("1.5Gi"), 1_610_612_736_000);
        assert_eq!(read("2e3"), 2_000_000);
        assert_eq!(read("5E-1"), 500);
        assert_eq!(read("-1"), -1000);
        assert_eq!(read("1u"), 1, "less than a thousandth counts as one");
        assert_eq!(read("9223372036854775807"), 9_223_372_036_854_775_807_000);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "eight", "1.2.3", "5 Gi", "Gi", "1e", "1e99", "0x10"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
