//! What a reader of files says of a type, in the words of those who write them.

/// A deserializer's message without the names of Rust's types: `expected u32` is "expected a whole
/// number from 0 on", and what a struct is read from is an object.
pub fn types_in_words(message: &str) -> String {
    if let Some(after) = message.strip_prefix("expected ident") {
        return format!("a word that JSON does not have{after}");
    }
    let spoken = |name: &str| match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => Some("a whole number from 0 on"),
        "i8" | "i16" | "i32" | "i64" | "isize" => Some("a whole number"),
        "f32" | "f64" => Some("a number"),
        _ => None,
    };
    let Some((before, rest)) = message.rsplit_once("expected ") else { return message.to_owned() };
    if rest.starts_with("struct ") {
        let place = rest.find(" at line ").map_or("", |at| rest.split_at(at).1);
        return format!("{before}expected an object{place}");
    }
    let (name, after) = rest.split_once(' ').map_or((rest, ""), |(name, after)| (name, after));
    match spoken(name) {
        Some(words) => format!("{before}expected {words} {after}").trim_end().to_owned(),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::types_in_words;

    #[test]
    fn types_of_numbers_are_told_in_words() {
        let told = |of: &str| types_in_words(&format!("invalid type: string \"i32\", {of}"));
        let whole = "invalid type: string \"i32\", expected a whole number";
        assert_eq!(told("expected i32 at line 2"), format!("{whole} at line 2"));
        assert_eq!(told("expected usize"), format!("{whole} from 0 on"));
        let object = "invalid type: string \"i32\", expected an object";
        assert_eq!(told("expected struct NodeLine"), object);
        assert_eq!(
            told("expected struct N with 5 elements at line 2"),
            format!("{object} at line 2")
        );
        assert_eq!(
            types_in_words("expected ident at line 1"),
            "a word that JSON does not have at line 1"
        );
        assert_eq!(told("expected a u32"), "invalid type: string \"i32\", expected a u32");
    }
}
