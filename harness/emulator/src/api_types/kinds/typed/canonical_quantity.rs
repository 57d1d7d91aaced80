//! Canonical form of quantities: no fraction, and the largest suffix that leaves an integer, of the
//! suffix family of the input.

use schedlab_api::quantity::{self, BadQuantity, Milli};

const DECIMAL_UNITS: [(&str, Milli); 8] = [
    ("E", 1_000_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000),
    ("T", 1_000_000_000_000_000),
    ("G", 1_000_000_000_000),
    ("M", 1_000_000_000),
    ("k", 1_000_000),
    ("", 1000),
    ("m", 1),
];
const BINARY_UNITS: [(&str, Milli); 7] = [
    ("Ei", 1000 << 60),
    ("Pi", 1000 << 50),
    ("Ti", 1000 << 40),
    ("Gi", 1000 << 30),
    ("Mi", 1000 << 20),
    ("Ki", 1000 << 10),
    ("", 1000),
];

/// The canonical text of a quantity, as the API server stores it: `1000m` becomes `1`.
///
/// # Errors
///
/// The API server's message for an invalid quantity.
pub(crate) fn canonical_quantity(text: &str) -> Result<String, String> {
    let milli = quantity::parse(text).map_err(|why| match why {
        BadQuantity::Malformed => "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned(),
        BadQuantity::TooLarge => format!("quantity {text:?}: {why}"),
    })?;
    if milli == 0 {
        return Ok("0".to_owned());
    }
    let exponent = text.find(['e', 'E']).filter(|&at| at + 1 < text.len());
    if exponent.is_some() {
        return Ok(in_scientific_notation(milli));
    }
    let is_binary = text.ends_with('i') && milli.abs() >= 1_024_000 && milli % 1000 == 0;
    let family: &[(&str, Milli)] = if is_binary { &BINARY_UNITS } else { &DECIMAL_UNITS };
    let (suffix, unit) = family
        .iter()
        .find(|(_, unit)| milli % unit == 0)
        .expect("every quantity is a multiple of the smallest unit");
    Ok(format!("{}{suffix}", milli / unit))
}

/// An amount as text with a decimal exponent that is a multiple of 3.
fn in_scientific_notation(milli: Milli) -> String {
    let (index, (_, unit)) = DECIMAL_UNITS
        .iter()
        .enumerate()
        .find(|(_, (_, unit))| milli % unit == 0)
        .expect("every quantity is a multiple of the smallest unit");
    let power = [18, 15, 12, 9, 6, 3, 0, -3][index];
    let number = milli / unit;
    if power == 0 { number.to_string() } else { format!("{number}e{power}") }
}

#[cfg(test)]
mod tests {
    use super::canonical_quantity;

    #[test]
    fn quantities_take_their_canonical_form() {
        for (written, stored) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("2000", "2k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0Gi", "0"),
            ("0.5Gi", "512Mi"),
            ("1e3", "1e3"),
            ("100E-2", "1"),
            ("512Ki", "512Ki"),
            ("-1", "-1"),
            ("1100Mi", "1100Mi"),
        ] {
            assert_eq!(canonical_quantity(written).as_deref(), Ok(stored), "{written}");
        }
    }

    #[test]
    fn a_malformed_quantity_is_refused() {
        assert!(canonical_quantity("1.2.3").unwrap_err().starts_with("quantities must match"));
        assert!(canonical_quantity("99999999999999999999").is_err());
    }
}
