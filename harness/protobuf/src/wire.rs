//! The protobuf wire format: a sequence of numbered fields.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    /// An integer or a bool.
    Number(u64),
    /// A double.
    Double(f64),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
    /// A fixed 32-bit value, which no built-in kind uses.
    Other,
}

/// Reads the fields of one message.
pub(super) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u64, Field<'a>), String> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Double(f64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| UNEXPECTED_EOF)?;
                Field::Bytes(self.take(length)?)
            }
            5 => self.array::<4>().map(|_| Field::Other)?,
            other => return Err(format!("wire type {other} is not known")),
        };
        Ok((key >> 3, field))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number is too long".to_owned())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| UNEXPECTED_EOF.to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(UNEXPECTED_EOF)?;
        self.rest = rest;
        Ok(taken)
    }
}

const UNEXPECTED_EOF: &str = "unexpected EOF";

impl<'a> Iterator for FieldReader<'a> {
    type Item = Result<(u64, Field<'a>), String>;

    /// Returns `None` after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_one_after_the_other() {
        let message =
            [0x08, 0x96, 0x01, 0x12, 0x02, b'o', b'k', 0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        let fields: Result<Vec<_>, _> = FieldReader::new(&message).collect();
        let expected = [(1, Field::Number(150)), (2, Field::Bytes(b"ok")), (3, Field::Double(1.0))];
        assert_eq!(fields.unwrap(), expected);
    }

    #[test]
    fn truncated_fields_are_errors() {
        let whole = [0x08, 0x96, 0x01, 0x12, 0x02, b'o', b'k'];
        for length in [1, 2, 4, 5, 6] {
            assert!(FieldReader::new(&whole[..length]).any(|field| field.is_err()), "{length}");
        }
        assert!(FieldReader::new(&[0x08; 12]).any(|field| field.is_ok()));
        assert!(FieldReader::new(&[0xff; 12]).any(|field| field.is_err()));
        assert!(FieldReader::new(&[0x0b]).any(|field| field.is_err()), "groups are not supported");
    }
}
