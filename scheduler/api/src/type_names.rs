//! Names of types in error messages of deserializers, for the authors of files.

/// Replaces the names of Rust types in a message of a deserializer: `expected u32` becomes
/// "expected a whole number from 0 on", and a struct becomes an object.
pub fn plain_type_names(message: &str) -> String {
    if let Some(after) = message.strip_prefix("expected ident") {
        return format!("an invalid JSON literal{after}");
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
    use super::plain_type_names;

    #[test]
    fn number_types_have_plain_names() {
        let rendered = |of: &str| plain_type_names(&format!("invalid type: string \"i32\", {of}"));
        let whole = "invalid type: string \"i32\", expected a whole number";
        assert_eq!(rendered("expected i32 at line 2"), format!("{whole} at line 2"));
        assert_eq!(rendered("expected usize"), format!("{whole} from 0 on"));
        let object = "invalid type: string \"i32\", expected an object";
        assert_eq!(rendered("expected struct NodeLine"), object);
        assert_eq!(
            rendered("expected struct N with 5 elements at line 2"),
            format!("{object} at line 2")
        );
        assert_eq!(
            plain_type_names("expected ident at line 1"),
            "an invalid JSON literal at line 1"
        );
        assert_eq!(rendered("expected a u32"), "invalid type: string \"i32\", expected a u32");
    }
}
