//! The `json!` macro.

/// Builds a [`Value`](crate::Value) from JSON syntax in which values may be expressions. A key that
/// is an expression must be in parentheses.
///
/// # Panics
/// If a value cannot be represented in JSON, see [`to_value`](crate::to_value).
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([$($items:tt)*]) => { $crate::Value::Array($crate::__items!([] $($items)*)) };
    ({}) => { $crate::Value::Object($crate::Map::new()) };
    ({$($fields:tt)+}) => {{
        let mut map = $crate::Map::new();
        $crate::__fields!(map $($fields)+);
        $crate::Value::Object(map)
    }};
    ($value:expr) => { $crate::to_value(&$value).expect("values in json! can be represented in JSON") };
}

/// The items of an array.
#[doc(hidden)]
#[macro_export]
macro_rules! __items {
    ([$($done:expr,)*]) => { ::std::vec![$($done),*] };
    ([$($done:expr,)*] null $(, $($rest:tt)*)?) => {
        $crate::__items!([$($done,)* $crate::Value::Null,] $($($rest)*)?)
    };
    ([$($done:expr,)*] [$($items:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__items!([$($done,)* $crate::json!([$($items)*]),] $($($rest)*)?)
    };
    ([$($done:expr,)*] {$($fields:tt)*} $(, $($rest:tt)*)?) => {
        $crate::__items!([$($done,)* $crate::json!({$($fields)*}),] $($($rest)*)?)
    };
    ([$($done:expr,)*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::__items!([$($done,)* $crate::json!($value),] $($($rest)*)?)
    };
}

/// The fields of an object.
#[doc(hidden)]
#[macro_export]
macro_rules! __fields {
    ($map:ident) => {};
    ($map:ident $key:tt: null $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::Value::Null);
        $crate::__fields!($map $($($rest)*)?);
    };
    ($map:ident $key:tt: [$($items:tt)*] $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::json!([$($items)*]));
        $crate::__fields!($map $($($rest)*)?);
    };
    ($map:ident $key:tt: {$($fields:tt)*} $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::json!({$($fields)*}));
        $crate::__fields!($map $($($rest)*)?);
    };
    ($map:ident $key:tt: $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::json!($value));
        $crate::__fields!($map $($($rest)*)?);
    };
}
