//! The wire format of protobuf: numbered fields, one after the other.

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    /// An integer or a bool.
    Number(u64),
    /// A double.
    Double(f64),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
    /// Four bytes, which no kind of ours has.
    Other,
}

/// Reads the fields of one message.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u64, Field<'a>), String> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Double(f64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
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
        self.take(N)?.try_into().map_err(|_| CUT.to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }
}

const CUT: &str = "unexpected EOF";

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), String>;

    /// After an error there is nothing more.
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
        let fields: Result<Vec<_>, _> = Fields::of(&message).collect();
        let expected = [(1, Field::Number(150)), (2, Field::Bytes(b"ok")), (3, Field::Double(1.0))];
        assert_eq!(fields.unwrap(), expected);
    }

    #[test]
    fn what_is_cut_off_anywhere_is_an_error() {
        let whole = [0x08, 0x96, 0x01, 0x12, 0x02, b'o', b'k'];
        for length in [1, 2, 4, 5, 6] {
            assert!(Fields::of(&whole[..length]).any(|field| field.is_err()), "{length}");
        }
        assert!(Fields::of(&[0x08; 12]).any(|field| field.is_ok()));
        assert!(Fields::of(&[0xff; 12]).any(|field| field.is_err()));
        assert!(Fields::of(&[0x0b]).any(|field| field.is_err()), "groups are not spoken");
    }
}
