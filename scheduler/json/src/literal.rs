//! JSON in the source.

/// A [`Value`](crate::Value) as it would be written in JSON, with expressions in the place of
/// values. A key that is an expression stands in parentheses.
///
/// # Panics
/// Where a value cannot be JSON, as [`to_value`](crate::to_value) says.
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
    ($value:expr) => { $crate::to_value(&$value).expect("what is written as JSON can be JSON") };
}

/// The items of a list, one after the other.
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

/// The fields of a map, one after the other.
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
