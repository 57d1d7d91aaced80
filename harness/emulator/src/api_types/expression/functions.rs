//! Signatures of CEL functions and operators. Of some functions only the name is known.

use super::cel_type::CelType;

const QUANTITY: CelType = CelType::Opaque("kubernetes.Quantity");
const SEMVER: CelType = CelType::Opaque("kubernetes.Semver");
const IP: CelType = CelType::Opaque("net.IP");
const CIDR: CelType = CelType::Opaque("net.CIDR");
const URL: CelType = CelType::Opaque("kubernetes.URL");

/// The type of a parameter, without type arguments (`list`, not `list(int)`).
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ParamType {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List,
    Map,
    Quantity,
}

use ParamType::{Bool, Bytes, Double, Duration, Int, List, Map, Quantity, Text, Timestamp, Uint};

/// Parameter types of functions, the receiver first, with all overloads. Functions without an entry
/// accept any arguments.
const PARAM_TYPES: &[(&str, &[&[ParamType]])] = &[
    ("contains", &[&[Text, Text]]),
    ("endsWith", &[&[Text, Text]]),
    ("startsWith", &[&[Text, Text]]),
    ("matches", &[&[Text, Text]]),
    ("size", &[&[Text], &[Bytes], &[List], &[Map]]),
    ("int", &[&[Int], &[Uint], &[Double], &[Text], &[Timestamp], &[Duration]]),
    ("uint", &[&[Int], &[Uint], &[Double], &[Text]]),
    ("double", &[&[Int], &[Uint], &[Double], &[Text]]),
    ("bool", &[&[Bool], &[Text]]),
    ("lowerAscii", &[&[Text]]),
    ("upperAscii", &[&[Text]]),
    ("trim", &[&[Text]]),
    ("charAt", &[&[Text, Int]]),
    ("substring", &[&[Text, Int], &[Text, Int, Int]]),
    ("split", &[&[Text, Text], &[Text, Text, Int]]),
    ("replace", &[&[Text, Text, Text], &[Text, Text, Text, Int]]),
    ("find", &[&[Text, Text]]),
    ("findAll", &[&[Text, Text], &[Text, Text, Int]]),
    ("isQuantity", &[&[Text]]),
    ("quantity", &[&[Text]]),
    ("isInteger", &[&[Quantity]]),
    ("asInteger", &[&[Quantity]]),
    ("asApproximateFloat", &[&[Quantity]]),
    ("isURL", &[&[Text]]),
    ("isIP", &[&[Text]]),
    ("isCIDR", &[&[Text]]),
];

/// Functions that return a bool, an int or a string.
const BOOL_FUNCTIONS: &[&str] = &[
    "allowed",
    "bool",
    "contains",
    "containsCIDR",
    "containsIP",
    "endsWith",
    "errored",
    "hasValue",
    "ip.isCanonical",
    "isCIDR",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "matches",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "startsWith",
];
const INT_FUNCTIONS: &[&str] = &[
    "asInteger",
    "compareTo",
    "family",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "indexOf",
    "int",
    "lastIndexOf",
    "major",
    "minor",
    "patch",
    "prefixLength",
    "sign",
    "size",
];
const STRING_FUNCTIONS: &[&str] = &[
    "charAt",
    "error",
    "find",
    "format",
    "getEscapedPath",
    "getHost",
    "getHostname",
    "getPort",
    "getScheme",
    "join",
    "lowerAscii",
    "reason",
    "replace",
    "string",
    "strings.quote",
    "substring",
    "trim",
    "upperAscii",
];
/// Functions with another or an unknown result type.
const OTHER_FUNCTIONS: &[&str] = &[
    "add",
    "bytes",
    "check",
    "cidr",
    "distinct",
    "double",
    "duration",
    "dyn",
    "fieldSelector",
    "findAll",
    "first",
    "flatten",
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.qualifiedName",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
    "format.named",
    "getQuery",
    "group",
    "ip",
    "labelSelector",
    "last",
    "lists.range",
    "masked",
    "max",
    "min",
    "name",
    "namespace",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "path",
    "quantity",
    "resource",
    "reverse",
    "semver",
    "serviceAccount",
    "slice",
    "sort",
    "split",
    "sub",
    "subresource",
    "sum",
    "timestamp",
    "type",
    "uint",
    "unwrapOpt",
    "url",
    "validate",
    "value",
    "asApproximateFloat",
    "@not_strictly_false",
    "asDouble",
];

/// Whether a function of this name exists.
pub(super) fn is_function(name: &str) -> bool {
    [BOOL_FUNCTIONS, INT_FUNCTIONS, STRING_FUNCTIONS, OTHER_FUNCTIONS]
        .iter()
        .any(|names| names.contains(&name))
}

/// The result type of a function; `None` if no overload matches.
pub(super) fn function_result_type(name: &str, argument_types: &[CelType]) -> Option<CelType> {
    let forms = PARAM_TYPES.iter().find(|(known, _)| *known == name).map(|(_, forms)| forms);
    let is_form = |form: &&&[ParamType]| {
        form.len() == argument_types.len()
            && form.iter().zip(argument_types).all(|(part, kind)| does_param_accept(*part, kind))
    };
    if forms.is_some_and(|forms| !forms.iter().any(|form| is_form(&form))) {
        return None;
    }
    Some(match name {
        _ if BOOL_FUNCTIONS.contains(&name) => CelType::Bool,
        _ if INT_FUNCTIONS.contains(&name) => CelType::Int,
        _ if STRING_FUNCTIONS.contains(&name) => CelType::Text,
        "double" | "asApproximateFloat" => CelType::Double,
        "uint" => CelType::Uint,
        "bytes" => CelType::Bytes,
        "duration" => CelType::Duration,
        "timestamp" => CelType::Timestamp,
        "split" | "findAll" => CelType::list(CelType::Text),
        "lists.range" => CelType::list(CelType::Int),
        "quantity" => QUANTITY,
        "semver" => SEMVER,
        "url" => URL,
        "ip" => IP,
        "cidr" | "masked" => CIDR,
        _ => CelType::Dyn,
    })
}

fn does_param_accept(param: ParamType, kind: &CelType) -> bool {
    kind.is_dynamic()
        || match param {
            Bool => *kind == CelType::Bool,
            Int => *kind == CelType::Int,
            Uint => *kind == CelType::Uint,
            Double => *kind == CelType::Double,
            Text => *kind == CelType::Text,
            Bytes => *kind == CelType::Bytes,
            Duration => *kind == CelType::Duration,
            Timestamp => *kind == CelType::Timestamp,
            List => matches!(kind, CelType::List(_)),
            Map => matches!(kind, CelType::Map(..)),
            Quantity => *kind == QUANTITY,
        }
}

/// The result type of an operator; `None` if no overload matches.
pub(super) fn operator_result_type(name: &str, operand_types: &[CelType]) -> Option<CelType> {
    match operand_types {
        [one] => unary_result_type(name, one),
        [one, other] => binary_result_type(name, one, other),
        [test, one, other]
            if CelType::Bool.is_assignable_to(test) && one.is_assignable_to(other) =>
        {
            Some(if one.is_dynamic() { other.clone() } else { one.clone() })
        }
        _ => None,
    }
}

fn unary_result_type(name: &str, operand: &CelType) -> Option<CelType> {
    match (name, operand) {
        ("!_", _) => CelType::Bool.is_assignable_to(operand).then_some(CelType::Bool),
        (_, CelType::Int | CelType::Double) => Some(operand.clone()),
        _ => operand.is_dynamic().then_some(CelType::Dyn),
    }
}

fn binary_result_type(name: &str, left: &CelType, right: &CelType) -> Option<CelType> {
    let is_open = left.is_dynamic() || right.is_dynamic();
    match name {
        "_==_" | "_!=_" => left.is_assignable_to(right).then_some(CelType::Bool),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            let is_ordered = left.is_number() && right.is_number()
                || left == right
                    && matches!(
                        left,
                        CelType::Bool
                            | CelType::Text
                            | CelType::Bytes
                            | CelType::Timestamp
                            | CelType::Duration
                    );
            (is_open || is_ordered).then_some(CelType::Bool)
        }
        "@in" => {
            let holds = if let CelType::List(of) | CelType::Map(of, _) = right {
                of.is_assignable_to(left)
            } else {
                right.is_dynamic()
            };
            holds.then_some(CelType::Bool)
        }
        "_[_]" if !left.is_dynamic() => index_result_type(left, right),
        _ if is_open => Some(CelType::Dyn),
        _ => arithmetic_result_type(name, left, right),
    }
}

fn index_result_type(container: &CelType, key: &CelType) -> Option<CelType> {
    let (keys, found) = if let CelType::List(item) = container {
        (&CelType::Int, item)
    } else if let CelType::Map(keys, value) = container {
        (&**keys, value)
    } else {
        return None;
    };
    keys.is_assignable_to(key).then(|| CelType::clone(found))
}

fn arithmetic_result_type(name: &str, left: &CelType, right: &CelType) -> Option<CelType> {
    use CelType::{Bytes, Double, Duration, Int, List, Text, Timestamp, Uint};
    match (name, left, right) {
        ("_+_", List(_), List(_)) if left.is_assignable_to(right) => Some(left.clone()),
        ("_+_" | "_-_", Duration, Duration) | ("_-_", Timestamp, Timestamp) => Some(Duration),
        ("_+_" | "_-_", Timestamp, Duration) | ("_+_", Duration, Timestamp) => Some(Timestamp),
        ("_+_", Text | Bytes | Int | Uint | Double, _)
        | ("_-_" | "_*_" | "_/_", Int | Uint | Double, _)
        | ("_%_", Int | Uint, _)
            if left == right =>
        {
            Some(left.clone())
        }
        _ => None,
    }
}
